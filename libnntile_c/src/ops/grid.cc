// SPDX-License-Identifier: BSD-3-Clause
// Pixels of images (n, c, spatial..) at places (n, places, as many numbers as an image has spatial
// dims, the last one first) in [-1, 1], and the gradients. Kernel dims: n, c, places, spatial..,
// numbers of a place.
#include "ops/common.hh"

namespace nntile::ops {
namespace {

// x and grid are operands from `first` on.
void check_grid(const Call& call, size_t first) {
    const Dims &x = call.inputs[first].sizes, &grid = call.inputs[first + 1].sizes;
    check((x.size() == 4 || x.size() == 5) && grid.size() == 3 && grid[0] == x[0] &&
              grid[2] == static_cast<int64_t>(x.size()) - 2,
          Status::invalid_argument, call.row.name, ": x ", text_of_dims(x), " and grid ",
          text_of_dims(grid),
          " do not match (n, c, two or three dims; n, places, a number for each of these)");
    for (size_t d = 2; d < x.size(); ++d)
        check(x[d] > 0, Status::invalid_argument, call.row.name,
              ": an image without pixels has no places, got x ", text_of_dims(x));
}
struct GridLabels {
    Labels x, grid, y;
};
GridLabels labels_of(const Dims& x, const Dims& grid, bool cut_places, Relation& r) {
    const LabelKind kind = cut_places ? LabelKind::parallel : LabelKind::whole;
    r.labels.push_back({x[0], LabelKind::parallel});
    r.labels.push_back({x[1], kind});
    r.labels.push_back({grid[1], kind});
    Labels of_x{0, 1};
    for (size_t d = 2; d < x.size(); ++d) {
        of_x.push_back(static_cast<int8_t>(r.labels.size()));
        r.labels.push_back({x[d], LabelKind::whole});
    }
    const auto last = static_cast<int8_t>(r.labels.size());
    r.labels.push_back({grid[2], LabelKind::whole});
    // A place of a channel costs some taps, not an image
    double points = static_cast<double>(grid[2]);
    for (size_t d = 2; d < x.size(); ++d) points *= static_cast<double>(x[d]);
    r.flops = 64 / points;
    return {of_x, Labels{0, 2, last}, Labels{0, 1, 2}};
}

void forward_shape(const Call& call, std::vector<Type>& outputs) {
    check_grid(call, 0);
    const Dims& x = call.inputs[0].sizes;
    outputs.push_back({call.compute, Dims{x[0], x[1], call.inputs[1].sizes[1]}, false});
}
void forward_relate(const Call& call, std::span<const Type>, Relation& r) {
    const GridLabels l = labels_of(call.inputs[0].sizes, call.inputs[1].sizes, true, r);
    r.operands = {l.x, l.grid, l.y};
}
void backward_shape(const Call& call, std::vector<Type>& outputs) {
    check_grid(call, 1);
    const Dims &dy = call.inputs[0].sizes, &x = call.inputs[1].sizes, &grid = call.inputs[2].sizes;
    const Dims want{x[0], x[1], grid[1]};
    check(dy == want, Status::invalid_argument, call.row.name, ": dy must have shape ",
          text_of_dims(want), ", got ", text_of_dims(dy));
    outputs = {{call.compute, x, false}, {call.compute, grid, false}};
}
void backward_relate(const Call& call, std::span<const Type>, Relation& r) {
    const GridLabels l = labels_of(call.inputs[1].sizes, call.inputs[2].sizes, false, r);
    r.operands = {l.y, l.x, l.grid, l.x, l.grid};
}
void params(const Call& call, bool, std::vector<ParamSpec>& out) {
    for (const char* name : {"mode", "padding", "align_corners"})
        out.push_back(fixed_param(call.attr(name).i));
}

}  // namespace
}  // namespace nntile::ops

NNTILE_ROWS(grid) {
    const std::vector<AttrRow> attrs{
        {"mode", AttrKind::text, "bilinear", "bilinear|nearest|bicubic"},
        {"padding", AttrKind::text, "zeros", "zeros|border|reflection"},
        {"align_corners", AttrKind::integer, "0"}};
    return {
        {.name = "grid_sample",
         .doc = "y = the pixels of x at the places of grid, between pixels as mode has it",
         .rule = Rule::whole,
         .types = Types::floating,
         .inputs = {{"x"}, {"grid"}},
         .outputs = {{"y"}},
         .attrs = attrs,
         .shape = forward_shape,
         .relate = forward_relate,
         .kernel = "grid_sample",
         .kernel_dims = all_dims,
         .params = params},
        {.name = "grid_sample_backward",
         .doc = "dx and dgrid of grid_sample",
         .rule = Rule::whole,
         .types = Types::floating,
         .inputs = {{"dy"}, {"x"}, {"grid"}},
         .outputs = {{"dx"}, {"dgrid"}},
         .attrs = attrs,
         .shape = backward_shape,
         .relate = backward_relate,
         .kernel = "grid_sample_backward",
         .kernel_dims = all_dims,
         .params = params},
    };
}
