// Boost.Asio and Beast, as the server's files use them: on one thread, in coroutines.
#pragma once

#include <utility>  // which Asio 1.74 forgets

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

// Frames of awaited coroutines have a pair of operators of their own, of which g++ 12 takes one for the other's where
// it has put only one of them in place.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

namespace bass {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using tcp = net::ip::tcp;
using ErrorCode = boost::system::error_code;

}  // namespace bass
