#include "runtime/src/backend/calibration.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>

#include "kernels/cpu/machine/cost.h"
#include "kernels/cpu/machine/simd.h"
#include "runtime/src/model/json.h"

namespace minnow {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// As the system names it; "" where it does not.
std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const size_t first = line.find_first_not_of(" \t", line.find(':') + 1), last = line.find_last_not_of(" \t");
    return first == std::string::npos ? "" : line.substr(first, last + 1 - first);
  }
  return "";
}

// "<processor> <instruction set> <threads> <version>": the threads, 0 for a key of something else.
double threads_of(const std::string& key, const std::string& begin, const std::string& end) {
  if (key.size() <= begin.size() + end.size() || key.compare(0, begin.size(), begin) != 0 ||
      key.compare(key.size() - end.size(), end.size(), end) != 0)
    return 0;
  const std::string middle = key.substr(begin.size(), key.size() - begin.size() - end.size());
  return middle.find_first_not_of("0123456789") == std::string::npos ? std::atof(middle.c_str()) : 0;
}

// What the file has; false where there is none, or it is damaged.
bool read_known(Json* known) {
  if (variable("MINNOW_CALIBRATION") == "off") return false;
  std::string base = variable("XDG_CACHE_HOME");
  if (base.empty() && variable("HOME").empty()) return false;
  if (base.empty()) base = variable("HOME") + "/.cache";
  std::ifstream file(base + "/minnow/roofline.json");
  return file && parse_json({std::istreambuf_iterator<char>(file), {}}, known);
}

void calibrate() {
  Json known;
  if (!read_known(&known)) return;
  const std::string begin = processor() + " " + isa_name() + " ", end = std::string(" ") + MINNOW_VERSION;
  for (const auto& [key, limits] : known.members) {
    const double threads = threads_of(key, begin, end);
    const Json *flops = limits.find("flops"), *bytes = limits.find("bytes");
    if (threads < 1 || flops == nullptr || bytes == nullptr) continue;
    if (!(flops->number > 0 && bytes->number > 0)) continue;
    return calibrate_machine(flops->number / threads, bytes->number / threads);
  }
}

}  // namespace

DeviceSpeed kept_speed(const Backend& backend) {
  DeviceSpeed speed;
  Json known;
  const Json* row = read_known(&known) ? known.find(backend.kind() + " " + MINNOW_VERSION) : nullptr;
  if (row == nullptr) return speed;
  const auto number = [row](const char* name) {
    const Json* value = row->find(name);
    return value == nullptr ? 0.0 : value->number;
  };
  speed = {number("flops"), number("bytes"), number("launch"), number("copy"), number("copy_bytes")};
  return speed.is_known() ? speed : DeviceSpeed();
}

void calibrate_once() {
  static std::once_flag once;
  std::call_once(once, calibrate);
}

}  // namespace minnow
