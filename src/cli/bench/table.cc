#include "cli/bench/table.h"

#include <fmt/format.h>

#include <cstdlib>

namespace bass {
namespace {

std::string aligned(const Column& column, std::string_view text) {
  const auto width = static_cast<size_t>(std::abs(column.width));
  return column.width < 0 ? fmt::format("{:<{}}", text, width) : fmt::format("{:>{}}", text, width);
}

std::string cell(const Column& column, const nlohmann::ordered_json& row) {
  const auto value = row.find(column.key);
  if (value == row.end() || value->is_null()) return "-";
  if (value->is_string()) return value->get<std::string>();
  return fmt::format("{:.{}f}", column.factor * value->get<double>(), column.n_decimals);
}

template <class Text>
std::string line(const std::vector<Column>& columns, Text text) {
  std::string result;
  for (const Column& column : columns) {
    if (!result.empty()) result += "  ";
    result += aligned(column, text(column));
  }
  result.erase(result.find_last_not_of(' ') + 1);
  return result + "\n";
}

}  // namespace

std::string table_header(const std::vector<Column>& columns) {
  return line(columns, [](const Column& column) { return column.title; });
}

std::string table_row(const std::vector<Column>& columns, const nlohmann::ordered_json& row) {
  return line(columns, [&](const Column& column) { return cell(column, row); });
}

Table::Table(std::vector<Column> columns, bool is_json, Output* out)
    : columns_(std::move(columns)), is_json_(is_json), out_(out) {}

void Table::add(const nlohmann::ordered_json& row) {
  if (is_json_) {
    out_->write(row.dump() + "\n");
    return;
  }
  if (!has_header_) out_->write(table_header(columns_));
  has_header_ = true;
  out_->write(table_row(columns_, row));
}

}  // namespace bass
