// The Python module bass._engine: what python/bass is written on.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "engine/options.h"
#include "python/module/py_engine.h"

namespace bass::python {
namespace {

// The table's rows, so that Python can list them.
std::string options_json() {
  auto rows = nlohmann::ordered_json::array();
  for (const Option& option : options_table()) {
    rows.push_back({{"name", option.name},
                    {"group", group_title(option.group)},
                    {"is_per_request", option.is_per_request},
                    {"value", option.value_name},
                    {"default", option_default(option)},
                    {"range", option.range},
                    {"help", option.help}});
  }
  return rows.dump();
}

// The program, for the script `bass` of a Python environment: arguments with the program's name in front.
int run_program(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const Unlocked unlocked;
  install_signal_handlers();
  return run_bass(static_cast<int>(arguments.size()), argv.data());
}

}  // namespace

PYBIND11_MODULE(_engine, module) {
  module.def("options_json", options_json);
  module.def("run_program", run_program, py::arg("arguments"));
  py::class_<PyJob>(module, "Job")
      .def("next_ended", &PyJob::next_ended, py::arg("timeout_s"))
      .def("next_piece", &PyJob::next_piece, py::arg("timeout_s"))
      .def("is_done", &PyJob::is_done)
      .def("cancel", &PyJob::cancel);
  py::class_<PyEngine>(module, "Engine")
      .def(py::init<std::string>(), py::arg("options"))
      .def("close", &PyEngine::close)
      .def("is_open", &PyEngine::is_open)
      .def("notes", &PyEngine::notes)
      .def("submit", &PyEngine::submit, py::arg("prompts"), py::arg("options"), py::arg("origins"))
      .def("tokenize", &PyEngine::tokenize, py::arg("text"), py::arg("add_special"), py::arg("parse_special"))
      .def("prompt_tokens", &PyEngine::prompt_tokens, py::arg("prompts"), py::arg("origins"))
      .def("detokenize", &PyEngine::detokenize, py::arg("tokens"))
      .def("score", &PyEngine::score, py::arg("prompts"), py::arg("origins"))
      .def("info", &PyEngine::info)
      .def("stats", &PyEngine::stats);
}

}  // namespace bass::python
