// The library that REGISTER_KERNEL or REGISTER_BINDING adds to. Do not edit: the judge builds with its own copy.
#include "binding_registry.h"

#ifdef CUDA_AGENT_PYBIND
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  for (const auto add : cuda_agent::bindings()) add(m);
}
#else
STABLE_TORCH_LIBRARY(cuda_extension, m) {}
#endif
