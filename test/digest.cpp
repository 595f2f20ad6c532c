// SPDX-License-Identifier: Apache-2.0
// Prints the detected instruction set, then a hash of every call's results on each instruction set
// that this processor has. A line must be the same on every processor that prints it.
//
// No oneTBB threads and no doctest: under an emulator the whole takes seconds.
#include "calls/catalogue.hpp"
#include "support/available_isas.hpp"
#include <vecdet/dispatch.hpp>

#include <cinttypes>
#include <cstdint>
#include <cstdio>

using namespace vecdet;
using namespace vecdet::test;

namespace {

/// FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv/
std::uint64_t hash_of(const results& r) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char byte : r.bytes())
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  return hash;
}

void print_digests(isa set, source from, const char* suffix) {
  plain_memory at;
  for_each_call(at, 333, from, [&](const family& f, const call& c) {
    const std::uint64_t hash = hash_of(c.results_of(threading::sequential, true));
    std::printf("%s %s/%s%s %016" PRIx64 "\n", isa_name(set), c.name.c_str(), f.type.c_str(),
                suffix, hash);
  });
}

}  // namespace

int main() {
  std::printf("detected %s\n", isa_name(detected_isa()));
  for_each_available_isa([](isa set) {
    print_digests(set, source::ordinary, "");
    print_digests(set, source::special, " special");
  });
}
