// bass pull ORG/NAME[:FILE]: what a model needs, from the hub into the cache.
#pragma once

#include <string>

#include "bass/status.h"
#include "cli/hub/hub_name.h"
#include "cli/output.h"

namespace bass {

/// Fetches what is missing of the model and gives what -m takes for it: a path in the cache. The revision points to it
/// only when it is whole, so that an older whole one stays in use until then. With HF_HUB_OFFLINE nothing is fetched.
/// Errors as HubClient, HubCache and choose_hub_files.
Result<std::string> pull_from_hub(const HubName& name, Console* console);

}  // namespace bass
