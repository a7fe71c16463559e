/* The facts about a convolution, by the names of kernel parameters. */
#include "ops/conv/packing.h"

void kn_conv_bind(kn_step *step, const kn_conv_form *form) {
    KN_STEP_BIND(step, {"images", form->images}, {"channels", form->channels}, {"height", form->height},
                 {"width", form->width}, {"outputs", form->outputs}, {"out_height", form->out_height},
                 {"out_width", form->out_width}, {"filter_height", form->filter_height},
                 {"filter_width", form->filter_width}, {"stride_y", form->stride[0]},
                 {"stride_x", form->stride[1]}, {"pad_top", form->padding[0]}, {"pad_left", form->padding[1]},
                 {"dilation_y", form->dilation[0]}, {"dilation_x", form->dilation[1]},
                 {"groups", form->groups});
}

void kn_conv_bind_wide(kn_step *step, const kn_conv_form *form, bool swapped) {
    KN_STEP_BIND(step, {"x_channels", swapped ? form->outputs : form->channels},
                 {"y_channels", swapped ? form->channels : form->outputs},
                 {"x_height", swapped ? form->out_height : form->height},
                 {"x_width", swapped ? form->out_width : form->width},
                 {"y_height", swapped ? form->height : form->out_height},
                 {"y_width", swapped ? form->width : form->out_width});
    kn_conv_bind(step, form);
}
