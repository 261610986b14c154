#include "cli/command.h"
#include "cli/interrupt.h"

int main(int argc, char** argv) {
  bass::install_signal_handlers();  // before anything that takes time: a signal's death is not an exit code
  return bass::run_bass(argc, argv);
}
