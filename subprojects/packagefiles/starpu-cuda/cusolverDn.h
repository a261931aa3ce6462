/* SPDX-License-Identifier: BSD-3-Clause */
/* StarPU's headers want these; its library, built without cuSOLVER, uses nothing of them. */
#pragma once
typedef struct cusolverDnContext* cusolverDnHandle_t;
typedef struct cusolverSpContext* cusolverSpHandle_t;
typedef struct cusolverRfContext* cusolverRfHandle_t;
typedef int cusolverStatus_t;
