// SPDX-License-Identifier: Apache-2.0
// Whether the tests run under AddressSanitizer or ThreadSanitizer, which take additional memory and
// time.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_UNDER_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TEST_UNDER_SANITIZER 1
#endif
#endif

namespace vecdet::test {

#if defined(TEST_UNDER_SANITIZER)
constexpr bool under_sanitizer = true;
#else
constexpr bool under_sanitizer = false;
#endif

}  // namespace vecdet::test
