// The library that REGISTER_KERNEL adds to. Do not edit: the judge builds with its own copy.
#include "binding_registry.h"

STABLE_TORCH_LIBRARY(cuda_extension, m) {}
