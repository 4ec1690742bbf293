#include "runtime/src/model/side_file.h"

#include <climits>
#include <cstdlib>

namespace minnow {
namespace {

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

// The path with links and dots resolved; "" if there is no such file.
std::string real_path(const std::string& path) {
  char* resolved = realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return "";
  std::string result = resolved;
  std::free(resolved);
  return result;
}

}  // namespace

Status SideFiles::open(const std::string& name, std::shared_ptr<const MappedFile>* file) {
  if (model_path_.empty())
    return fail(Code::kUsage, "has weights in a file of their own: load it by its path, not from memory");
  std::string path = model_path_ + ".weight";
  if (!name.empty()) path = name[0] == '/' ? name : folder_of(model_path_) + "/" + name;
  const std::string folder = real_path(folder_of(model_path_));
  const std::string real = real_path(path);
  if (real.empty()) return fail(Code::kFormat, "the file with its weights, %s, is missing", path.c_str());
  // An untrusted model must not make us read files outside of its folder.
  const std::string inside = folder == "/" ? folder : folder + "/";
  if (real.compare(0, inside.size(), inside) != 0)
    return fail(Code::kFormat, "the file with its weights, %s, is outside of the model's folder", path.c_str());
  return MappedFile::open(real, file, access_);
}

Status SideFiles::read(const std::string& name, int64_t offset, int64_t bytes, const char** data,
                       std::shared_ptr<const MappedFile>* file) {
  std::shared_ptr<const MappedFile>& opened = files_[name];
  if (opened == nullptr) MINNOW_RETURN_IF_ERROR(open(name, &opened));
  if (offset < 0 || bytes < 0 || offset > opened->size() || bytes > opened->size() - offset)
    return fail(Code::kFormat, "needs the bytes [%lld, +%lld) of %s, which has %lld", static_cast<long long>(offset),
                static_cast<long long>(bytes), opened->path().c_str(), static_cast<long long>(opened->size()));
  *data = opened->data() + offset;
  *file = opened;
  return ok();
}

}  // namespace minnow
