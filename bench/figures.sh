# SPDX-License-Identifier: Apache-2.0
# For scripts that publish figures, which read it with `source`; bench/figures.py says why.
for variable in OPENBLAS_CORETYPE OPENBLAS_L2_SIZE; do
  [ -z "${!variable+set}" ] || echo "warning: $variable can slow OpenBLAS down; removed from the environment" >&2
  unset "$variable"
done
