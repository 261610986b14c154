// The draft that comes with a model of the model store: a file beside the program, used without being named.
#pragma once

#include <optional>
#include <string>

#include "engine/options.h"

namespace bass {

/// The draft's file for what -m says: a known model's name. None: a path (also of the same file), a model that no draft
/// comes with, or a draft that is in none of the folders, which are, in this order: $BASS_MODELS, `models` beside the
/// shared library that this code is in (a Python package), `models` beside the program (a build), and
/// ../share/bass/models from there (an installation).
std::optional<std::string> find_shipped_draft(const std::string& model);

/// Makes it the run's draft where none is named and the command line's drafter would use one.
void use_shipped_draft(GenerateOptions* options);

/// Takes it away again.
void drop_shipped_draft(GenerateOptions* options);

/// What to tell who runs a program that has lost its folder of drafts: where the draft was looked for, and the mend.
/// Empty where none is missed.
std::string missing_draft_note(const GenerateOptions& options);

}  // namespace bass
