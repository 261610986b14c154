// How the measurements are printed: one row a measurement, as a table for people or as one JSON object a line.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/output.h"

namespace bass {

/// A column of the table. The JSON may have keys that no column shows.
struct Column {
  std::string_view title;
  std::string_view key;  ///< of the row's JSON
  int width = 8;         ///< characters; negative: text, aligned to the left
  int n_decimals = 0;
  double factor = 1;  ///< what the JSON's number is multiplied with
};

/// The titles, and a row's cells; each ends with a line break. A key that is missing or null gives "-".
std::string table_header(const std::vector<Column>& columns);
std::string table_row(const std::vector<Column>& columns, const nlohmann::ordered_json& row);

/// Prints rows as they come.
class Table {
 public:
  Table(std::vector<Column> columns, bool is_json, Output* out);
  void add(const nlohmann::ordered_json& row);

 private:
  std::vector<Column> columns_;
  bool is_json_;
  bool has_header_ = false;
  Output* out_;
};

}  // namespace bass
