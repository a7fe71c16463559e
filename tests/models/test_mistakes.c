/* Every mistake is reported with its position, what was found, what was expected and the nearest known word.
 */
#include "models_tests.h"

#include <stdio.h>
#include <string.h>

typedef struct mistake {
    const char *text, *message;
} mistake;

static void all_refused(const mistake *mistakes, size_t count) {
    for (size_t i = 0; i < count; i++)
        refused(mistakes[i].text, mistakes[i].message);
}
#define ALL_REFUSED(...)                                                                                     \
    do {                                                                                                     \
        static const mistake mistakes[] = {__VA_ARGS__};                                                     \
        all_refused(mistakes, sizeof mistakes / sizeof *mistakes);                                           \
    } while (0)
TEST(head) {
    ALL_REFUSED(
        {"koine 2\n", "text:3:1: found a second 'koine', expected one in a model"},
        {"model a\nmodel b\n", "text:4:1: found a second 'model', expected one in a model"},
        {"koine 1\n", "text:3:1: found a second 'koine', expected one in a model"},
        {"|koine 1 2\n", "text:1:9: found '2', expected only 'koine 1'"},
        {"|input x 3\n",
         "text:1:1: found 'input', expected 'koine 1', the version of the format, in the first line"},
        {"|", "text:1:1: found no lines, expected 'koine 1', the version of the format, in the first"},
        {"|koine 1\n", "text:1:1: found the end of the text, expected an 'input NAME SHAPE' before"},
        {"|koine\n", "text:1:6: found the end of the line, expected 'koine 1'"},
        {"|# no version\n\nmodel x\n",
         "text:3:1: found 'model', expected 'koine 1', the version of the format, in the first line"},
        {"|name = relu\n",
         "text:1:1: found 'name', expected 'koine 1', the version of the format, in the first line"},
        {"model my net\n", "text:3:10: found 'net', expected only 'model NAME'"},
        {"model -x\n", "text:3:7: found '-x', expected a name of letters, digits, '_', '.' and '-'"},
        {"task clasification\n", "text:3:6: found 'clasification', expected classification or "
                                 "regression; did you mean 'classification'?"},
        {"task\n",
         "text:3:5: found the end of the line, expected 'task classification' or 'task regression'"},
        {"set n\n", "text:3:6: found the end of the line, expected 'set NAME NUMBER'"},
        {"set n 1\nset n 2\n", "text:4:5: found a second setting 'n', expected a new name"},
        {"set n m\n", "text:3:7: found 'm', expected an integer"},
        {"set 2n 1\n",
         "text:3:5: found '2n', expected a name for the setting: a letter, then letters, digits and "
         "'_', at most 64"},
        {"loss\n", "text:3:5: found the end of the line, expected 'loss NAME'"},
        {"loss crossentropy\n", "text:3:6: found 'crossentropy', expected cross-entropy, nll, "
                                "mse, l1, huber, smooth-l1, binary-cross-entropy, "
                                "probability-cross-entropy, kl-divergence or hinge; did you mean "
                                "'cross-entropy'?"},
        {"loss mse huber\n", "text:3:10: found 'huber', expected only 'loss NAME'"},
        {"loss mse delta=3\n", "text:3:10: found 'delta', but mse has no settings"},
        {"loss huber delta=0\n", "text:3:18: found '0' for delta, expected a number above 0"},
        {"loss huber detla=1\n",
         "text:3:12: found 'detla', expected delta=NUMBER for huber; did you mean 'delta'?"},
        {"loss huber delta=1 delta=2\n", "text:3:20: found a second delta, expected only one"},
        {"loss cross-entropy smoothing=1\n",
         "text:3:30: found '1' for smoothing, expected a number in [0, 1)"},
        {"loss cross-entropy ignroe=1\n",
         "text:3:20: found 'ignroe', expected smoothing=NUMBER or ignore=NUMBER for cross-entropy; did you "
         "mean 'ignore'?"},
        {"loss nll ignore=1.5\n", "text:3:17: found '1.5' for ignore, expected a number without a fraction"},
        {"augment\n", "text:3:8: found the end of the line, expected 'augment flip crop=N ...'"},
        {"augment flip crop=2.5\n", "text:3:14: 'crop' needs an integer above 0, such as crop=4"},
        {"augment flip flop\n",
         "text:3:14: 'flop' is not an augmentation; expected flip, crop, shift, rotate, scale, shear, "
         "brightness, contrast, "
         "saturation, hue, cutout, noise, mix-up, cut-mix, or none; did you mean 'flip'?"},
        {"augment flip\naugment crop=1\n", "text:4:1: found a second 'augment', expected one in a model"});
}

TEST(inputs_and_outputs) {
    ALL_REFUSED(
        {"input q\n", "text:3:8: found the end of the line, expected 'input NAME SHAPE [TYPE]'"},
        {"input q 3 int23\n",
         "text:3:11: found 'int23', expected a type such as float32 or int32; did you mean 'int32'?"},
        {"input q 3 int32 4\n", "text:3:17: found '4', expected only 'input NAME SHAPE [TYPE]'"},
        {"input q 3 b=1\n", "text:3:11: found 'b', expected batch=no or nothing"},
        {"input q 3 batch=maybe\n", "text:3:17: found 'maybe', expected yes or no"},
        {"input 2q 3\n", "text:3:7: found '2q', expected a name for the input: a letter, then letters, "
                         "digits and '_', at most 64"},
        {"input q 3,\n", "text:3:11: found the end in '3,', expected an integer, a name, '-' or '('"},
        {"input q heightxwidth\n", "text:3:9: 'heightxwidth' is ambiguous; expected commas between sizes, or "
                                   "parentheses around a size whose name has an x"},
        {"input q (3\n", "text:3:11: found the end in '(3', expected ')' (expressions have no spaces)"},
        {"input q 1x2x3x4x5x6x7x8\n",
         "text:3:23: found more than 7 sizes in '1x2x3x4x5x6x7x8', expected at most 8 with the batch"},
        {"input x 3\n", "text:3:7: found 'x', a name already used in line 2; expected a new name"},
        {"n = input q 3\n", "text:3:1: found 'n =' before input, which takes no name"},
        {"output lgoits\n", "text:3:8: found 'lgoits', expected the name of an input or line before it"},
        {"logits = linear 3\noutput lgoits\n",
         "text:4:8: found 'lgoits', expected the name of an input or line before it; did you mean 'logits'?"},
        {"output @x\n", "text:3:8: found '@', expected 'output NAME'"},
        {"output x x\n", "text:3:10: found 'x', which is already an output"},
        {"x = relu\n", "text:3:1: found 'x', a name already used in line 2; expected a new name"},
        {"output\n", "text:3:7: found the end of the line, expected 'output NAME'"});
}

TEST(words) {
    ALL_REFUSED({"relu =\n", "text:3:7: found the end of the line, expected a kind of layer after 'relu' ="},
                {"= relu\n", "text:3:1: found '=', expected a name or a kind of layer first"},
                {"a = = relu\n", "text:3:4: found '=', expected a kind of layer after 'a' ="},
                {"@x relu\n", "text:3:1: found '@', expected a name or a kind of layer first"},
                {"linear units=\n", "text:3:14: found the end of the line, expected a value after units="},
                {"linear units==\n", "text:3:14: found '=', expected a value after units="},
                {"linear 5 =\n", "text:3:11: found the end of the line, expected a value after 5="},
                {"linear 3 \xff\n", "text:3:10: found the byte 0xff, expected a text in UTF-8"},
                {"linear 3 \x01\n", "text:3:10: found the byte 0x01, expected a text in UTF-8"},
                {"koine = relu\n", "text:3:1: found 'koine', a reserved name; expected a different name"},
                {"a.b = relu\n", "text:3:1: found 'a.b', expected a name: a letter, then letters, digits, "
                                 "'_' and counters such as {i}, at most 64"},
                {"a{ = relu\n", "text:3:1: found 'a{', expected a name: a letter, then letters, digits, '_' "
                                "and counters such as {i}, at most 64"},
                {"2a = relu\n", "text:3:1: found '2a', expected a name: a letter, then letters, digits, '_' "
                                "and counters such as {i}, at most 64"},
                {"relu \xc3\xa9\n", "text:3:6: found '\xc3\xa9"
                                    "', expected 'relu' and then NAME=VALUE"});
}

TEST(kinds) {
    ALL_REFUSED(
        {"covn 32 3\n",
         "text:3:1: found 'covn', expected a kind of layer, an operator or a block; did you mean 'conv'?"},
        {"dense 32\n",
         "text:3:1: found 'dense', expected a kind of layer, an operator or a block; did you mean 'linear'?"},
        {"Linear 3\n", "text:3:1: found 'Linear', expected a kind of layer, an operator or a block; did you "
                       "mean 'linear'?"},
        {"ReLU\n",
         "text:3:1: found 'ReLU', expected a kind of layer, an operator or a block; did you mean 'relu'?"},
        {"leaky-relu\n", "text:3:1: found 'leaky-relu', expected a kind of layer, an operator or a block; "
                         "did you mean 'leaky_relu'?"},
        {"batch_norm2d\n", "text:3:1: found 'batch_norm2d', expected a kind of layer, an operator or a "
                           "block; did you mean 'batch_norm'?"},
        {"qqqqqqqq\n", "text:3:1: found 'qqqqqqqq', expected a kind of layer, an operator or a block"},
        {"conv2d 32 3\n",
         "text:3:8: found '32', expected 'conv2d' and then NAME=VALUE; did you mean the layer 'conv'?"},
        {"relu 4\n", "text:3:6: found '4', expected 'relu' and then NAME=VALUE"},
        {"add @x\n", "text:3:5: found 1 input, expected 2 for add; write each with an @; a single @ is the "
                     "line before"},
        {"add @x @x @x\n", "text:3:11: found 3 inputs, expected 2 for add"},
        {"number 3 @x\n", "text:3:10: found 1 input, expected 0 for number"},
        {"capsule\n", "text:3:1: found 'capsule', expected a kind of layer, an operator or a block"},
        {"assign @x @x\n",
         "text:3:1: found 'assign', expected a kind of layer, an operator or a block; did you mean 'sign'?"});
}

TEST(arguments) {
    ALL_REFUSED(
        {"conv 32\n", "text:3:1: conv needs size (filter size: 3 or 3x5); expected 'conv "
                      "channels size'"},
        {"conv 32 3 stide=2\n",
         "text:3:11: found 'stide', expected an argument of conv: channels, size, stride, padding, dilation, "
         "groups, bias, init, bias_init, share, freeze or device; did you mean 'stride'?"},
        {"conv 32 3 4\n", "text:3:11: found '4', expected 'conv channels size' and then NAME=VALUE"},
        {"conv 32 3 stride=0\n", "text:3:18: found '0' for stride of conv, expected at least 1"},
        {"conv 32 3 padding=smae\n", "text:3:19: found 'smae' for padding of conv, expected numbers or same "
                                     "or same-lower; did you mean 'same'?"},
        {"conv 32 3 padding=1,2,3\n",
         "text:3:19: found '1,2,3' for padding of conv, expected 1, 2 or 4 numbers"},
        {"conv 32 3 stride=1,2,3\n",
         "text:3:18: found '1,2,3' for stride of conv, expected at most 2 numbers"},
        {"linear 3 units=4\n", "text:3:10: found 'units', but units is given already"},
        {"linear 3 bias bias=no\n", "text:3:15: found 'bias', but bias is given already"},
        {"linear 3 bias=maybe\n", "text:3:15: found 'maybe' for bias of linear, expected yes or no"},
        {"linear 2 4\n", "text:3:10: found '4', expected 'linear units' and then NAME=VALUE"},
        {"linear 3.5\n", "text:3:9: found '.5' in '3.5', expected an integer"},
        {"linear unit\n", "text:3:8: found 'unit', expected an integer"},
        {"linear 0\n", "text:3:8: found '0' for units of linear, expected at least 1"},
        {"linear 4 init=norml:0.1\n", "text:3:15: found 'norml:0.1' for init of linear, expected zero, one, "
                                      "fill, uniform, normal, truncated_normal, xavier_uniform, "
                                      "xavier_normal, kaiming_uniform, kaiming_normal, kaiming_uniform_out, "
                                      "kaiming_normal_out or orthogonal; did you mean 'normal'?"},
        {"linear 4 init=zero:0.1\n",
         "text:3:15: found 'zero:0.1' for init of linear, expected no number after it"},
        {"linear 4 init=normal:\n", "text:3:22: found nothing, expected an integer, a name, '-' or '('"},
        {"linear 4 init=normal:inf\n",
         "text:3:15: found 'normal:inf' for init of linear, expected a finite number"},
        {"linear 4 init=normal:big\n", "text:3:15: found 'normal:big' for init of linear, expected a number"},
        {"number two\n", "text:3:8: found 'two' for value of number, expected a number"},
        {"number 1.2.3\n", "text:3:8: found '1.2.3' for value of number, expected a number"},
        {"dropout rat=1\n",
         "text:3:9: found 'rat', expected an argument of dropout: rate or device; did you mean 'rate'?"},
        {"relu freeze\n", "text:3:6: found 'freeze', expected 'relu' and then NAME=VALUE"},
        {"relu slope=1\n", "text:3:6: found 'slope', expected an argument of relu: device"},
        {"softmax axes=1\n",
         "text:3:9: found 'axes', expected an argument of softmax: axis or device; did you mean 'axis'?"},
        {"softmax axis=one\n", "text:3:14: found 'one', expected an integer"},
        {"softmax axis=1,2\n", "text:3:15: found ',2' in '1,2', expected one of + - * / % or the end"},
        {"leaky_relu slop=2\n", "text:3:12: found 'slop', expected an argument of leaky_relu: slope or "
                                "device; did you mean 'slope'?"},
        {"sum keep=2\n", "text:3:10: found '2' for keep of sum, expected yes or no"},
        {"sum axes=a\n", "text:3:10: found 'a', expected an integer"},
        {"cast dtype=flaot16\n",
         "text:3:12: found 'flaot16' for dtype of cast, expected float32, float64, float16, bfloat16, int8, "
         "int16, int32, int64, uint8, uint16, uint32, uint64, bool, float8e4m3fn, float8e4m3fnuz, "
         "float8e5m2, "
         "float8e5m2fnuz, float8e8m0 or float4e2m1; did you mean 'float16'?"});
}

TEST(numbers) {
    ALL_REFUSED(
        {"linear 99999999999999999999\n",
         "text:3:8: '99999999999999999999' is beyond 64 bits; expected a smaller number"},
        {"linear 4611686018427387904\n",
         "text:3:8: found '4611686018427387904' for units of linear, expected at most 2147483647"},
        {"linear 3*(2\n", "text:3:12: found the end in '3*(2', expected ')' (expressions have no spaces)"},
        {"linear 3**2\n", "text:3:10: found '*2' in '3**2', expected an integer, a name, '-' or '('"},
        {"linear 3+\n", "text:3:10: found the end in '3+', expected an integer, a name, '-' or '('"},
        {"linear 3)\n", "text:3:9: found ')' in '3)', expected one of + - * / % or the end"},
        {"linear 9223372036854775807+1\n",
         "text:3:8: '9223372036854775807+1' is beyond 64 bits; expected a smaller number"},
        {"linear 4/0\n", "text:3:9: '4/0' divides by 0; expected a nonzero divisor"},
        {"linear 4%0\n", "text:3:9: '4%0' divides by 0; expected a nonzero divisor"},
        {"linear 2x3\n", "text:3:9: found 'x3' in '2x3', expected an integer"},
        {"linear {i}\n", "text:3:8: found '{i}' in '{i}', expected an integer, a name, '-' or '('"},
        {"linear (3 +1)\n", "text:3:11: found '+1)', expected 'linear units' and then NAME=VALUE"},
        {"repeat 0-1\nend\n", "text:3:8: found repeat '0-1', which is -1, expected 0 or more"},
        {"repeat a\nend\n", "text:3:8: found 'a', expected an integer"});
}

TEST(names) {
    ALL_REFUSED(
        {"add @x @z\n", "text:3:8: found 'z', expected the name of an input or line before it"},
        {"first = relu\nadd @x @frist\n",
         "text:4:8: found 'frist', expected the name of an input or line before it; did you mean 'first'?"},
        {"relu = relu\nrelu = tanh\n",
         "text:4:1: found 'relu', a name already used in line 3; expected a new name"},
        {"relu @x:a\n",
         "text:3:6: found ':a' after the name, expected ':' and the index of a result, from 0"},
        {"linear 4 share=foo\n",
         "text:3:16: found 'foo', expected the name of a layer with parameters before it"},
        {"relu\nlinear 3 share=relu1\n",
         "text:4:16: found 'relu1', expected the name of a layer with parameters before it"},
        {"linear 3\nlinear 4 share=linear2\n", "text:4:16: found 'linear2', expected the name of a layer "
                                               "with parameters before it; did you mean 'linear1'?"},
        {"linear 3\nlinear 4 share=linear1\n", "text:4:1: found 4 for a linear that shares the weight of "
                                               "'linear1', which has 3; expected the same number, or none"},
        {"linear 3\nlinear share=linear1 freeze\n",
         "text:4:1: found freeze for shared parameters, expected it in the line of 'linear1'"},
        {"a{i} = relu\n", "text:3:3: found 'i', expected an integer"},
        {"linear 3\nbatchnorm share=linear1\n",
         "text:4:1: 'linear1' has no running_mean; expected share= with another batchnorm"},
        {"a = groupnorm 1\ngroupnorm share=a\n",
         "text:4:1: found a groupnorm without groups; expected groups=, which share= does not copy"},
        {"a = groupnorm 1\nlinear 5\ninstancenorm share=a\n",
         "text:5:1: the weight of 'a' has 3 channels; expected a value (batch,channels,...) with the same "
         "number"},
        {"reshape 3x1\na = convtranspose 2 3\nreshape 3x2\nconvtranspose 2 4 share=a\n",
         "text:6:1: the shared filter of 'a' is 3x3 with 2 output channels; expected the same, or "
         "none"},
        {"p = parameter 3x3x3\nlinear share=p\n",
         "text:4:1: the weight of 'p' does not exist; expected share= with another linear"});
}

TEST(blocks) {
    ALL_REFUSED(
        {"repeat 5\nrelu\n", "text:3:1: found repeat without its 'end'"},
        {"block b n\n", "text:3:1: found block without its 'end'"},
        {"end\n", "text:3:1: found 'end' without a block or repeat before it"},
        {"end 3\n", "text:3:5: found '3', expected only 'end'"},
        {"repeat\n", "text:3:7: found the end of the line, expected 'repeat TIMES [COUNTER]'"},
        {"repeat 2 3\nend\n", "text:3:10: found '3', expected a name for the counter: a letter, then "
                              "letters, digits and '_', at most 64"},
        {"repeat 2\nmodel x\nend\n",
         "text:4:1: found 'model' inside the repeat of line 3, expected it outside"},
        {"repeat 2\nblock b\nend\nend\n",
         "text:4:1: found 'block' inside the repeat of line 3, expected it outside"},
        {"repeat 2\noutput x\nend\n", "text:4:1: found 'output' inside a repeat, expected it after its end"},
        {"repeat 2 i\na = linear 3\nend\n", "text:4:1: found 'a', a name already used in line 4; expected a "
                                            "new name, for example with the counter: name{i}"},
        {"block\n", "text:3:6: found the end of the line, expected 'block NAME [@INPUT ...] [PARAMETER ...] "
                    "[PARAMETER=DEFAULT ...]'"},
        {"block n=3\nend\n",
         "text:3:7: found 'n', expected 'block NAME [@INPUT ...] [PARAMETER ...] [PARAMETER=DEFAULT ...]'"},
        {"block conv\nend\n", "text:3:7: found 'conv', a reserved name; expected a new name"},
        {"block input\nend\n", "text:3:7: found 'input', a reserved name; expected a new name"},
        {"block b\nend\nblock b\nend\n",
         "text:5:7: found a second block 'b', expected a new name: the first is in line 3"},
        {"block b 2\nend\n", "text:3:9: found '2', expected a name for a parameter of the block: a letter, "
                             "then letters, digits and '_', at most 64"},
        {"block b share\nend\n",
         "text:3:9: found 'share', which every block defines; expected a different name"},
        {"block b n n\nend\n", "text:3:11: found a second parameter 'n', expected a new name"},
        {"block b n\nb n\nend\n",
         "text:4:1: found block 'b' inside itself; blocks can only use earlier blocks"},
        {"block b n\nlinear n\nend\nb\n", "text:6:1: b needs n (a parameter of the block); expected 'b n'"},
        {"block b n\nlinear n\nend\nb 2 3\n", "text:6:5: found '3', expected 'b n' and then NAME=VALUE"},
        {"block b n\nlinear n\nend\nb 2 m=3\n",
         "text:6:5: found 'm', expected an argument of b: n, share, freeze or device"},
        {"block b n\nlinear n\nend\nb n=2 n=3\n", "text:6:7: found 'n', but n is given already"},
        {"block b n\nlinear n/0\nend\nb 3\n",
         "text:4:9: 'n/0' divides by 0; expected a nonzero divisor (in block 'b', used in line 6)"},
        {"block b n\nlinear m\nend\nb 3\n", "text:4:8: found 'm', expected an integer, a parameter of "
                                            "the block or a counter (in block 'b', used in line 6)"},
        {"block b num\nlinear nmu\nend\nb 3\n",
         "text:4:8: found 'nmu', expected an integer, a parameter of the block or a counter; did you "
         "mean 'num'? (in block 'b', used in line 6)"},
        {"block b n\nlinear n\nend\nb 0.5\n",
         "text:4:9: found '.5' in '0.5', expected an integer (in block 'b', used in line 6)"},
        {"block b s\nlinear s\nend\nb s/2\n",
         "text:4:8: found 's', expected an integer (in block 'b', used in line 6)"},
        {"block b s\nlinear 3 bias=s\nend\nb 7\n",
         "text:4:15: found '7' for bias of linear, expected yes or no (in block 'b', used in line 6)"},
        {"block b @l @r\nadd @l @r\nend\nb\n",
         "text:6:1: found 1 input, expected 2 for b; write each with an @; a single @ is the line before"},
        {"block a n\nlinear n\nend\nblock b n\na n\nend\nblock c n\nb n\nend\nblock d n\nc n\nend\nd 0\n",
         "text:4:8: found '0' for units of linear, expected at least 1 (in block 'a', used in line 7) (in "
         "block 'b', used in line 10) (in block 'c', used in line 13), and so on"},
        {"block b n=m m=2\nlinear n\nend\nb\n",
         "text:4:8: found 'm', expected an integer (in block 'b', used in line 6)"},
        {"block res\nrelu\nend\nrse\n",
         "text:6:1: found 'rse', expected a kind of layer, an operator or a block; did you mean 'res'?"});
}

/* Errors of the graph are also reported with the line; their texts come from other modules. */
static void refused_by_graph(const char *text, kn_status status, const char *place, const char *words) {
    char whole[1024];
    snprintf(whole, sizeof whole, "koine 1\ninput x 3\n%s", text);
    kn_model *model = kn_model_parse(whole, NULL);
    assert_int_equal(kn_model_status(model), status);
    const char *error = kn_model_error(model);
    if (strncmp(error, place, strlen(place)) || !strstr(error, words)) fail_msg("%s", error);
    kn_model_destroy(&model);
}

TEST(shapes) {
    refused_by_graph("relu\nconv 32 3\n", KN_ERROR_SHAPE, "text:4:1: ", "(batch,3)");
    refused_by_graph("a = linear 4\nb = linear @x 5\n  c = add @a @b\n", KN_ERROR_SHAPE,
                     "text:5:7: ", "(batch,5)");
    refused_by_graph("block b n\nconv n 3\nend\nb 5\n", KN_ERROR_SHAPE,
                     "text:4:1: ", "(in block 'b', used in line 6)");
    refused_by_graph("softmax axis=5\n", KN_ERROR_SHAPE, "text:3:1: ", "axis 5");
    refused_by_graph("parameter 3xlength\n", KN_ERROR_SHAPE, "text:3:1: ", "parameter1");
    refused_by_graph("dropout 2\n", KN_ERROR_ARGUMENT, "text:3:1: ", "rate");
    refused_by_graph("reshape 1x-1\nattention_dropout rate=1\n", KN_ERROR_ARGUMENT, "text:4:1: ", "rate");
    refused_by_graph("relu @x:1\n", KN_ERROR_ARGUMENT, "text:3:1: ", "'x'");
    refused_by_graph("input q 2000000000x2000000000x20000000000\nlinear 2000000000\n", KN_ERROR_FORMAT,
                     "text:4:1: ", "'linear1.weight' would have the shape (2000000000,20000000000)");
}

TEST_FILE(test_mistakes, NULL, NULL)
