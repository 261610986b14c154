#include "base/caught_status.h"

#include <exception>
#include <new>
#include <system_error>

namespace bass {
namespace {

Status make_status(StatusCode code, std::string_view what, const char* text) noexcept {
  try {
    return {code, std::string(what) + ": " + text};
  } catch (const std::bad_alloc&) {
    return {code, "out of memory"};  // short enough to lie in the string itself
  }
}

}  // namespace

Status caught_status(std::string_view what) noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return make_status(StatusCode::kResourceExhausted, what, "out of memory");
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) {
      return make_status(StatusCode::kResourceExhausted, what, "the system gives no further thread; lower --threads");
    }
    return make_status(StatusCode::kInternal, what, error.what());
  } catch (const std::exception& error) {
    return make_status(StatusCode::kInternal, what, error.what());
  } catch (...) {
    return make_status(StatusCode::kInternal, what, "unknown exception");
  }
}

}  // namespace bass
