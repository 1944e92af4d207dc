"""NVIDIA's two libraries and nvidia-smi for two GPUs that are not there, numbered as on a machine of mixed models.

CUDA counts the fastest first (unless $CUDA_DEVICE_ORDER is PCI_BUS_ID), the management library and nvidia-smi by slot:
SLOW is CUDA's 1 and nvidia-smi's 0. Somebody else computes on FAST.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from judging import HOME

SLOW, FAST = (f"GPU-{letter * 8}-0000-0000-0000-000000000000" for letter in "ab")
CUDA = r"""
#include <stdlib.h>
#include <string.h>
static const unsigned char first[2] = {0xaa, 0xbb};
static int shown[2], count;
int cuInit(unsigned flags) {
  const char *order = getenv("CUDA_DEVICE_ORDER"), *named = getenv("CUDA_VISIBLE_DEVICES");
  int by_slot = order && !strcmp(order, "PCI_BUS_ID");
  char text[256];
  count = 0;
  strncpy(text, named ? named : "0,1", 255);
  for (char *word = strtok(text, ","); word && count < 2; word = strtok(0, ",")) {
    int is_slow = !strncmp(word, "GPU-a", 5), is_fast = !strncmp(word, "GPU-b", 5);
    int number = word[0] == '0' ? 0 : word[0] == '1' ? 1 : -1;
    if (!is_slow && !is_fast && number < 0) break;
    shown[count++] = is_slow ? 0 : is_fast ? 1 : by_slot ? number : 1 - number;
  }
  return count ? 0 : 100;
}
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return ordinal < count ? 0 : 101; }
int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
  memset(uuid, 0, 16);
  memset(uuid, first[shown[device]], 4);
  return 0;
}
"""
MANAGEMENT = r"""
#include <string.h>
typedef struct { unsigned pid; unsigned long long time; unsigned sm, memory, encoder, decoder; } Sample;
typedef struct { unsigned gpu, memory; } Utilization;
static int devices[2] = {0, 1};
static unsigned long long now = 1000;
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, int **device) {
  *device = &devices[!strncmp(uuid, "GPU-b", 5)];
  return strlen(uuid) == 40 && (uuid[4] == 'a' || uuid[4] == 'b') ? 0 : 6;
}
int nvmlDeviceGetName(int *device, char *name, unsigned size) { strcpy(name, *device ? "Fast" : "Slow"); return 0; }
int nvmlDeviceGetClockInfo(int *device, int kind, unsigned *mhz) { *mhz = *device ? 2000 : 1000; return 0; }
int nvmlDeviceGetUtilizationRates(int *device, Utilization *found) { found->gpu = *device ? 97 : 3; return 0; }
int nvmlDeviceGetProcessUtilization(int *device, Sample *found, unsigned *room, unsigned long long since) {
  if (*device && found) { Sample sample = {1, ++now, 90, 0, 0, 0}; *found = sample; }
  *room = *device;
  return 0;
}
"""
SMI = """#!/bin/sh
case "$*" in
  *compute_cap*--id=GPU-b*|*compute_cap*--id=1*) echo 9.0;;
  *compute_cap*) echo 8.0;;
esac
"""


class Driver:
    """A folder with all of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name, source in (("libcuda.so.1", CUDA), ("libnvidia-ml.so.1", MANAGEMENT)):
            command = ["g++", "-x", "c", "-shared", "-fPIC", "-o", str(folder / name), "-"]
            subprocess.run(command, input=source, text=True, check=True)
        smi = folder / "nvidia-smi"
        smi.write_text(SMI)
        smi.chmod(0o755)

    def started(self, script: str, *arguments: str, environ: Mapping[str, str]) -> "subprocess.Popen[str]":
        """Python with the judge's modules under this driver, reading from us and writing to us."""
        head = f"import sys, os\nsys.path.insert(0, {str(HOME)!r})\nfrom pathlib import Path\n"
        shown = {"PATH": f"{self._folder}:{os.defpath}", "LD_LIBRARY_PATH": str(self._folder), **environ}
        line = [sys.executable, "-I", "-S", "-c", head + script, *arguments]
        return subprocess.Popen(line, env=shown, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def asked(self, script: str, *arguments: str, environ: Mapping[str, str]) -> str:
        """What a script prints."""
        with self.started(script, *arguments, environ=environ) as process:
            said, _ = process.communicate()
        assert process.returncode == 0
        return said.strip()
