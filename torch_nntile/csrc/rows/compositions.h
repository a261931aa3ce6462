// SPDX-License-Identifier: BSD-3-Clause
// Compositions are kernels in Python, made of calls of other ops. Which ones, the signature of a
// call says: so they are noted once, and then made from here, without Python.
#pragma once

namespace torch_nntile {

// The overload's kernel of the device becomes one that repeats calls. Its kernel in Python stands
// at the key PrivateUse3, of which there are no tensors.
// on_host: it can run there, too, at host_key.
void register_composition(const char* aten_name, const char* overload, bool on_host);

}  // namespace torch_nntile
