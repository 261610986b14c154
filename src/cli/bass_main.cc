#include "cli/command.h"

int main(int argc, char** argv) { return bass::run_bass(argc, argv); }
