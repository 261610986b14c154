// Values of the template language, with Python's types.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bass::jinja {

enum class Kind : uint8_t {
  kUndefined,  ///< a name or attribute that is not there; using it is an error, printing it is not
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kRange,
  kView,       ///< dict_keys, dict_values, dict_items: has a length, cannot be indexed
  kGenerator,  ///< what most filters give: can be gone through once
  kDict,
  kFunction,
  kLoop,
  kNamespace,
  kMacro,
  kCycler,
};

/// Bytes that values hold at the moment. A value gives its bytes back when it dies.
class Memory {
 public:
  explicit Memory(int64_t limit_bytes) : limit_bytes_(limit_bytes) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  [[nodiscard]] bool has(int64_t n_bytes) const { return n_bytes <= limit_bytes_ - used_bytes_; }
  void take(int64_t n_bytes) { used_bytes_ += n_bytes; }
  /// Raises the limit by `factor` times what is used.
  void extend(int64_t factor) { limit_bytes_ += factor * used_bytes_; }
  void give_back(int64_t n_bytes) { used_bytes_ -= n_bytes; }

 private:
  int64_t limit_bytes_;
  int64_t used_bytes_ = 0;
};

/// What one object took of a Memory, which must outlive it.
class Charge {
 public:
  Charge() = default;
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;
  ~Charge() {
    if (memory_ != nullptr) memory_->give_back(n_bytes_);
  }
  void take(Memory* memory, int64_t n_bytes) {
    memory_ = memory;
    n_bytes_ = n_bytes;
    memory->take(n_bytes);
  }

 private:
  Memory* memory_ = nullptr;
  int64_t n_bytes_ = 0;
};

/// Whatever does not fit into a Value itself.
struct Object {
  explicit Object(Kind object_kind) : kind(object_kind) {}
  virtual ~Object() = default;
  Kind kind;
  int depth = 1;  ///< of containers in containers; bounded, so that recursion over a value is
  Charge charge;
};

class Value {
 public:
  Value() = default;  ///< none
  static Value of_bool(bool value) { return Value(Kind::kBool, int64_t{value}); }
  static Value of_int(int64_t value) { return Value(Kind::kInt, value); }
  static Value of_float(double value) {
    Value result(Kind::kFloat, 0);
    result.float_ = value;
    return result;
  }
  explicit Value(std::shared_ptr<Object> object) : kind_(object->kind), object_(std::move(object)) {}

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] bool is(Kind kind) const { return kind_ == kind; }
  [[nodiscard]] bool is_undefined() const { return is(Kind::kUndefined); }
  [[nodiscard]] bool is_none() const { return is(Kind::kNone); }
  [[nodiscard]] bool is_string() const { return is(Kind::kString); }
  [[nodiscard]] bool is_integral() const { return is(Kind::kInt) || is(Kind::kBool); }  ///< a bool is an int in Python
  [[nodiscard]] bool is_number() const { return is_integral() || is(Kind::kFloat); }
  /// Lists, tuples and what else keeps its items one after the other.
  [[nodiscard]] bool is_sequence() const { return kind_ >= Kind::kList && kind_ <= Kind::kGenerator; }
  [[nodiscard]] bool is_list_or_tuple() const { return is(Kind::kList) || is(Kind::kTuple); }

  [[nodiscard]] int64_t integer() const { return integer_; }  ///< is_integral()
  [[nodiscard]] double number() const { return is(Kind::kFloat) ? float_ : static_cast<double>(integer_); }
  [[nodiscard]] const std::string& text() const;  ///< of a string; of an undefined value: what is undefined
  template <class T>
  [[nodiscard]] T& as() const {
    return static_cast<T&>(*object_);
  }
  [[nodiscard]] int depth() const { return object_ == nullptr ? 0 : object_->depth; }
  [[nodiscard]] const Object* object() const { return object_.get(); }

 private:
  Value(Kind kind, int64_t value) : kind_(kind), integer_(value) {}

  Kind kind_ = Kind::kNone;
  union {
    int64_t integer_ = 0;
    double float_;
  };
  std::shared_ptr<Object> object_;
};

struct Text final : Object {
  using Object::Object;
  std::string bytes;
};

struct Sequence final : Object {
  using Object::Object;
  std::vector<Value> items;
  size_t n_taken = 0;  ///< of a generator
  std::string name;    ///< of a view its type, of a range how it is printed
};

struct Dict final : Object {
  Dict() : Object(Kind::kDict) {}
  std::vector<std::pair<Value, Value>> entries;  ///< in the order of insertion
};

struct Namespace final : Object {
  Namespace() : Object(Kind::kNamespace) {}
  std::vector<std::pair<std::string, Value>> attributes;
};

/// What `cycler` makes, and what a `joiner` has behind it.
struct Cycler final : Object {
  Cycler() : Object(Kind::kCycler) {}
  Value items;     ///< a tuple, not empty
  size_t idx = 0;  ///< of the current one
};

/// Arguments of a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

class Runtime;
/// A method gets its object as `self`; a filter or a test the value that it is applied to.
using NativeFunction = Value (*)(Runtime& rt, const Value& self, const Arguments& arguments);

struct Function final : Object {
  Function() : Object(Kind::kFunction) {}
  NativeFunction call = nullptr;
  Value self;
};

inline const std::string& Value::text() const { return as<Text>().bytes; }

/// Python's name of the type: "str", "NoneType".
std::string_view type_name(const Value& value);

}  // namespace bass::jinja
