// Files in the user's cache ($XDG_CACHE_HOME/minnow, else ~/.cache/minnow), with what can be made again but takes long,
// such as programs that a driver has compiled. Each may be deleted at any time.
#pragma once

#include <cstdint>
#include <string>

namespace minnow::gpu {

// Gives the content that was last written under this name with this key. False where there is none: another key, a
// file that was cut or changed, or one of another version of Minnow.
bool read_cache(const std::string& name, const std::string& key, std::string* content);

// Replaces the file as a whole, so that no reader sees a part of it. Where it cannot be written, nothing happens.
void write_cache(const std::string& name, const std::string& key, const std::string& content);

// A number for names of files; FNV-1a, of 64 bits.
uint64_t hash_of(const std::string& bytes);

}  // namespace minnow::gpu
