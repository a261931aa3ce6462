/* SPDX-License-Identifier: BSD-3-Clause */
/* So that StarPU's own programs can be linked where there is no cuBLAS. Nobody runs them, and
   nothing of this gets into its library. */
int cublasCreate_v2(void) { return 1; }
int cublasDestroy_v2(void) { return 1; }
int cublasInit(void) { return 1; }
int cublasSetKernelStream(void) { return 1; }
int cublasSetStream_v2(void) { return 1; }
int cublasShutdown(void) { return 1; }
