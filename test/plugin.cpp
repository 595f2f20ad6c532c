// SPDX-License-Identifier: Apache-2.0
// A library that records scopes under its own names, built several times with different names of
// the same length. plugins.cpp loads and unloads it.
#include <vecdet/profile/scope.hpp>

extern "C" __attribute__((visibility("default"))) const char* record() {
  VECDET_PROFILE_SCOPE("plugin " PLUGIN_NAME);
  const char* const numbered = vecdet::profile::numbered_name("from " PLUGIN_NAME " ", 0.5);
  const vecdet::profile::scope inside([&] {
    return vecdet::profile::problem{"inside", numbered, "type " PLUGIN_NAME, {4}};
  });
  return "plugin " PLUGIN_NAME;
}
