// SPDX-License-Identifier: Apache-2.0
#include "trace_events.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <system_error>

#include <nlohmann/json.hpp>

namespace vecdet::profile {
namespace {

constexpr std::size_t longest_piece = std::size_t{1} << 20;
constexpr std::size_t longest_text = 4096;
constexpr std::size_t most_numbers = 4096;
constexpr int deepest = 64;

/// The bytes of the text in blocks. The parser keeps each string and number whole, and between them
/// all white space, brackets, commas and literals. Long pieces are refused before the parser reads
/// them.
class blocks {
 public:
  explicit blocks(const trace_reader& read) : read_(read), buffer_(std::size_t{1} << 16) {}

  /// The next block; false at the end.
  bool next() {
    const std::size_t size = std::min(read_(buffer_.data(), buffer_.size()), buffer_.size());
    at_ = buffer_.data();
    end_ = at_ + size;
    for (std::size_t i = 0; i < size; ++i) check(buffer_[i]);
    return size > 0;
  }
  bool has_byte() { return at_ != end_ || next(); }
  const char* at_ = nullptr;

 private:
  enum class piece { between, string, number };

  void check(char c) {
    const piece before = piece_;
    if (piece_ == piece::string && !(c == '"' && !escaped_)) {
      escaped_ = c == '\\' && !escaped_;
    } else if (piece_ == piece::string) {
      piece_ = piece::between;
    } else if (c == '"') {
      piece_ = piece::string;
    } else {
      const bool is_digit = c >= '0' && c <= '9';
      const bool continues = c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
      const bool is_number = is_digit || (piece_ == piece::number ? continues : c == '-');
      piece_ = is_number ? piece::number : piece::between;
    }
    length_ = piece_ == before ? length_ + 1 : 0;
    if (length_ <= longest_piece) return;
    throw std::runtime_error(piece_ == piece::between ? "more than 1 MB without a string or number"
                                                      : "a string or number is longer than 1 MB");
  }

  const trace_reader& read_;
  std::vector<char> buffer_;
  const char* end_ = nullptr;
  std::size_t length_ = 0;
  piece piece_ = piece::between;
  bool escaped_ = false;
};

/// The iterator over the blocks' bytes that the parser wants. Copies share the position.
class byte_iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  explicit byte_iterator(blocks* from = nullptr) : from_(from) {}
  reference operator*() const { return *from_->at_; }
  byte_iterator& operator++() {
    ++from_->at_;
    return *this;
  }
  /// Only compared with the end.
  bool operator!=(const byte_iterator&) const { return from_->has_byte(); }
  bool operator==(const byte_iterator& end) const { return !(*this != end); }

 private:
  blocks* from_;
};

/// Microseconds with decimals as nanoseconds, without loss; false if it is none or not from -100 to
/// 100 years.
bool parse_microseconds(const std::string& text, std::int64_t& ns) {
  constexpr std::int64_t most = std::int64_t{100} * 365 * 86400 * 1000000;
  const std::size_t point = text.find('.');
  std::int64_t whole = 0;
  const char* const begin = text.data();
  const char* const whole_end = begin + std::min(point, text.size());
  const auto parsed = std::from_chars(begin, whole_end, whole);
  if (parsed.ec != std::errc() || parsed.ptr != whole_end || whole > most || whole < -most)
    return false;
  std::int64_t part = 0, unit = 100;
  for (std::size_t i = point == text.npos ? text.size() : point + 1; i < text.size(); ++i) {
    if (text[i] < '0' || text[i] > '9') return false;
    part += unit * (text[i] - '0');
    unit /= 10;
  }
  ns = whole * 1000 + (text[0] == '-' ? -part : part);
  return true;
}

/// Receives the parser's calls and puts events together.
class event_builder {
 public:
  using number_integer_t = std::int64_t;
  using number_unsigned_t = std::uint64_t;
  using number_float_t = double;
  using string_t = std::string;
  using binary_t = std::vector<std::uint8_t>;

  event_builder(trace_header& header, const std::function<void(const trace_event&)>& visit)
      : header_(header), visit_(visit) {}

  bool null() { return value(""); }
  bool boolean(bool is) { return value(is ? "True" : "False"); }
  bool number_integer(std::int64_t number) { return integer(number); }
  bool number_unsigned(std::uint64_t number) {
    return integer(static_cast<std::int64_t>(
        std::min<std::uint64_t>(number, std::numeric_limits<std::int64_t>::max())));
  }
  bool number_float(double, const std::string& text) { return value(text); }
  bool string(std::string& text) { return value(text); }
  bool binary(std::vector<std::uint8_t>&) { return true; }

  bool start_object(std::size_t) {
    if (level() == 0) begin_event();
    if (level() == 1 && field_ == "args") in_args_ = true;
    return enter();
  }
  bool end_object() {
    --depth_;
    if (level() == 0) end_event();
    if (level() == 1) in_args_ = false;
    return true;
  }
  bool start_array(std::size_t) {
    if (events_ == 0 && (depth_ == 0 || (depth_ == 1 && root_key_ == "traceEvents"))) {
      events_ = depth_ + 1;
      header_.has_events = true;
    }
    if (events_ > 0 && depth_ >= events_) begin_list();
    return enter();
  }
  bool end_array() {
    --depth_;
    if (depth_ < events_) events_ = 0;
    if (in_args_ && level() == 3) ++input_;  // an input's sizes end
    if (in_args_ && level() == 3 && argument_ == argument::concrete) {
      trace_input* const input = input_at(input_ - 1);
      if (input != nullptr) input->concrete += ']';
    }
    return true;
  }
  bool key(std::string& name) {
    if (events_ == 0) {
      if (depth_ == 1) root_key_ = name.substr(0, 64);
      if (depth_ == 2) inner_key_ = name.substr(0, 64);
    } else if (level() == 1) {
      field_ = name.substr(0, 16);
    } else if (level() == 2 && in_args_) {
      argument_ = argument_of(name);
    }
    return true;
  }
  template <class Error>
  bool parse_error(std::size_t position, const std::string&, const Error&) {
    throw std::runtime_error("not JSON at byte " + std::to_string(position));
  }

 private:
  enum class argument { other, sizes, strides, types, concrete, sequence };

  /// 1 inside of an event, 2 inside of its "args", 3 in the list of an argument.
  int level() const { return events_ > 0 ? depth_ - events_ : -1; }

  bool enter() {
    if (++depth_ > deepest) throw std::runtime_error("nested deeper than 64");
    return true;
  }

  static argument argument_of(const std::string& name) {
    // Older versions write "Input dims".
    if (name == "Input Dims" || name == "Input dims") return argument::sizes;
    if (name == "Input Strides") return argument::strides;
    if (name == "Input type") return argument::types;
    if (name == "Concrete Inputs") return argument::concrete;
    return name == "Sequence number" ? argument::sequence : argument::other;
  }

  void begin_event() {
    event_ = {};
    field_.clear();
    has_begin_ = has_duration_ = false;
    argument_ = argument::other;
    numbers_ = 0;
  }

  void end_event() {
    const bool is_whole = event_.phase == "X", begins = event_.phase == "B",
               ends = event_.phase == "E";
    if (((is_whole || begins) && event_.name.empty()) || (is_whole && !has_duration_) ||
        ((is_whole || begins || ends) && !has_begin_)) {
      ++header_.malformed;
      return;
    }
    visit_(event_);
  }

  /// A list begins inside of an event: an argument, an input's sizes, or one tensor of a list.
  void begin_list() {
    if (level() == 2 && in_args_) {
      input_ = 0;
      if (argument_ == argument::sizes) event_.has_shapes = true;
    }
    if (!in_args_ || level() < 3) return;
    trace_input* const input = input_at(input_);
    if (input == nullptr) return;
    if (argument_ == argument::concrete && level() == 3) input->concrete = "[";
    // A tensor's numbers follow, or lists of them.
    auto* const lists = argument_ == argument::sizes     ? &input->sizes
                        : argument_ == argument::strides ? &input->strides
                                                         : nullptr;
    if (lists == nullptr || ++numbers_ > most_numbers) return;
    if (level() == 4 && lists->size() == 1 && lists->front().empty()) lists->clear();
    lists->emplace_back();
  }

  trace_input* input_at(std::size_t i) {
    if (i >= event_.inputs.size()) {
      if (i >= most_numbers || ++numbers_ > most_numbers) return nullptr;
      event_.inputs.resize(i + 1);
    }
    return &event_.inputs[i];
  }

  bool integer(std::int64_t number) {
    if (in_args_ && level() >= 4 && argument_ != argument::concrete) {
      trace_input* const input = input_at(input_);
      if (input == nullptr || ++numbers_ > most_numbers) return true;
      if (argument_ == argument::sizes && !input->sizes.empty())
        input->sizes.back().push_back(number);
      if (argument_ == argument::strides && !input->strides.empty())
        input->strides.back().push_back(number);
      return true;
    }
    if (in_args_ && level() == 2) {
      if (argument_ == argument::sequence) event_.sequence = std::max<std::int64_t>(number, -1);
      return true;
    }
    return value(std::to_string(number));
  }

  bool value(const std::string& whole) {
    const std::string text = whole.substr(0, longest_text);
    if (events_ == 0) {
      std::int64_t number = 0;
      const bool is_number =
          std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc();
      if (depth_ == 1 && root_key_ == "baseTimeNanoseconds" && is_number) header_.base_ns = number;
      if (depth_ == 2 && root_key_ == "distributedInfo" && inner_key_ == "rank" && is_number)
        header_.rank = static_cast<int>(std::clamp<std::int64_t>(number, -1, 1 << 30));
      return true;
    }
    if (level() == 1) {
      set_field(text);
    } else if (level() == 3 && in_args_) {
      trace_input* const input = input_at(input_++);
      if (input == nullptr) return true;
      if (argument_ == argument::types) input->type = text.substr(0, 64);
      if (argument_ == argument::concrete) input->concrete = text.substr(0, 256);
    } else if (level() == 4 && in_args_ && argument_ == argument::concrete) {
      trace_input* const input = input_at(input_);
      if (input != nullptr && input->concrete.size() < 256)
        input->concrete += (input->concrete == "[" ? "" : ", ") + text;
    }
    return true;
  }

  void set_field(const std::string& text) {
    if (field_ == "ph") event_.phase = text;
    if (field_ == "cat") event_.category = text;
    if (field_ == "name") event_.name = text;
    if (field_ == "pid") event_.process = text.substr(0, 64);
    if (field_ == "tid") event_.thread = text.substr(0, 64);
    if (field_ == "ts") has_begin_ = parse_microseconds(text, event_.begin_ns);
    if (field_ == "dur") {
      has_duration_ = parse_microseconds(text, event_.duration_ns) && event_.duration_ns >= 0;
    }
  }

  trace_header& header_;
  const std::function<void(const trace_event&)>& visit_;
  trace_event event_;
  std::string root_key_, inner_key_, field_;
  argument argument_ = argument::other;
  std::size_t input_ = 0, numbers_ = 0;
  int depth_ = 0, events_ = 0;  ///< the depth inside of the list of events; 0 outside of it
  bool in_args_ = false, has_begin_ = false, has_duration_ = false;
};

}  // namespace

trace_header read_trace_events(const trace_reader& read,
                               const std::function<void(const trace_event&)>& visit) {
  trace_header header;
  blocks text(read);
  event_builder into(header, visit);
  nlohmann::json::sax_parse(byte_iterator(&text), byte_iterator(), &into);
  return header;
}

}  // namespace vecdet::profile
