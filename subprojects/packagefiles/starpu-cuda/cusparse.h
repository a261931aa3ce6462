/* SPDX-License-Identifier: BSD-3-Clause */
/* StarPU's headers want this one; its library, built without cuSPARSE, uses nothing of it. */
#pragma once
typedef struct cusparseContext* cusparseHandle_t;
