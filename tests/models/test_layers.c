/* Each kind of layer passes the arguments of its line to its builder; operators are kinds without code for
 * each. */
#include "models_tests.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "models/models.h"

static void begins(const kn_graph *graph, const char *name, kn_initializer_kind kind, double value) {
    const kn_initializer *found = &kn_graph_find(graph, name)->initializer;
    if (found->kind != kind || !(fabs(found->value - value) <= 1e-12))
        fail_msg("%s begins as %d by %.17g, expected %d by %.17g", name, (int)found->kind, found->value,
                 (int)kind, value);
}

TEST(convolutions) {
    kn_model *model = parse("koine 1\ninput x 4x15x17\n"
                            "a = conv @x 6 3x5\n"
                            "b = conv @x 6 3,5 stride=2,3 padding=1,2\n"
                            "c = conv @x 8 3 padding=same stride=2 groups=4 bias=no\n"
                            "d = conv @x 2 3 dilation=2 padding=1,2,3,4\n"
                            "e = conv @x channels=2 size=1 init=fill:2 bias_init=one\n");
    has_shapes(model, "a.weight 6,4,3,5; a batch,6,13,13; b batch,6,8,6; c.weight 8,1,3,3; "
                      "c batch,8,8,9; d batch,2,15,19");
    const kn_graph *graph = kn_model_graph(model);
    assert_null(kn_graph_find(graph, "c.bias"));
    assert_non_null(kn_graph_find(graph, "d.bias"));
    begins(graph, "e.weight", KN_INITIALIZER_FILL, 2);
    assert_true(kn_graph_find(graph, "e.bias")->initializer.value == 1);
    kn_model_destroy(&model);
}

TEST(linears) {
    kn_model *model = parse("koine 1\ninput x lengthx6\n"
                            "a = linear 5 init=normal:0.02 bias_init=zero\n"
                            "b = linear 4 bias=0 init=uniform:1e-1\n"
                            "c = linear 3\n");
    const kn_graph *graph = kn_model_graph(model);
    has_shape(model, "a.weight", "5,6");
    has_shape(model, "c", "batch,length,3");
    begins(graph, "a.weight", KN_INITIALIZER_NORMAL, 0.02);
    begins(graph, "a.bias", KN_INITIALIZER_FILL, 0);
    assert_null(kn_graph_find(graph, "b.bias"));
    begins(graph, "b.weight", KN_INITIALIZER_UNIFORM, 0.1);
    assert_true(kn_graph_find(graph, "c.weight")->initializer.value == 0.5); /* 1 / sqrt(4) */
    kn_model_destroy(&model);
}

/* The fans are PyTorch's: b has a fan-in of 12 * 6 and a fan-out of 20 * 6. */
TEST(initial_values) {
    kn_model *model = parse("koine 1\ninput x 12x15x15\n"
                            "a = conv 20 2x3 init=xavier_uniform\n"
                            "b = conv @x 20 2x3 init=xavier_normal:2\n"
                            "c = conv @x 20 2x3 init=kaiming_uniform\n"
                            "d = conv @x 20 2x3 init=kaiming_normal:1 bias_init=normal:0.5\n"
                            "e = conv @x 20 2x3 init=kaiming_uniform_out:1\n"
                            "f = conv @x 20 2x3 init=kaiming_normal_out\n"
                            "g = conv @x 20 2x3 init=orthogonal:3\n"
                            "h = conv @x 20 2x3 init=truncated_normal:0.02\n");
    const kn_graph *graph = kn_model_graph(model);
    begins(graph, "a.weight", KN_INITIALIZER_UNIFORM, sqrt(6.0 / (72 + 120)));
    begins(graph, "b.weight", KN_INITIALIZER_NORMAL, 2 * sqrt(2.0 / (72 + 120)));
    begins(graph, "c.weight", KN_INITIALIZER_UNIFORM, sqrt(6.0 / 72));
    begins(graph, "d.weight", KN_INITIALIZER_NORMAL, 1 / sqrt(72));
    begins(graph, "d.bias", KN_INITIALIZER_NORMAL, 0.5);
    begins(graph, "e.weight", KN_INITIALIZER_UNIFORM, sqrt(3.0 / 120));
    begins(graph, "f.weight", KN_INITIALIZER_NORMAL, sqrt(2.0 / 120));
    begins(graph, "g.weight", KN_INITIALIZER_ORTHOGONAL, 3);
    begins(graph, "h.weight", KN_INITIALIZER_TRUNCATED_NORMAL, 0.02);
    kn_model_destroy(&model);
    model = kn_model_parse("koine 1\ninput x 12\nlinear 3 bias_init=orthogonal\n", NULL);
    assert_int_equal(kn_model_status(model), KN_ERROR_SHAPE);
    assert_non_null(strstr(kn_model_error(model), "at least two dimensions"));
    kn_model_destroy(&model);
}

TEST(tokens) {
    kn_model *model = parse("koine 1\ninput x length int32\n"
                            "a = embedding 96 7\n"
                            "b = embedding @x 96 7 init=uniform:0.5 freeze\n"
                            "c = embedding @x share=a\n");
    const kn_graph *graph = kn_model_graph(model);
    has_shapes(model, "a.weight 96,7; a batch,length,7; c batch,length,7");
    begins(graph, "a.weight", KN_INITIALIZER_NORMAL, 1);
    assert_true(kn_graph_find(graph, "b.weight")->initializer.value == 0.5);
    assert_true(kn_graph_find(graph, "b.weight")->frozen);
    has_parameters(model, "a.weight b.weight");
    kn_model_destroy(&model);
}

TEST(pools) {
    kn_model *model = parse("koine 1\ninput x 4x15x17\n"
                            "a = maxpool @x 2\n"
                            "b = maxpool @x 3x2 stride=2 padding=1,0\n"
                            "c = avgpool @x 3 stride=1 padding=1 skip_padding\n"
                            "d = globalavgpool @x\n"
                            "e = avgpool @x 2x3\n");
    has_shapes(model, "a batch,4,7,8; b batch,4,8,8; c batch,4,15,17; d batch,4,1,1; e batch,4,7,5");
    kn_model_destroy(&model);
}

TEST(windows_of_other_kinds) {
    kn_model *model = parse("koine 1\ninput x 4x15x17\ninput s 6x20\n"
                            "a = maxpool @x 3 stride=2 padding=1,0 ceil dilation=2\n"
                            "b = avgpool @x 2 ceil\n"
                            "c = lppool @x 2 power=1\n"
                            "d = adaptiveavgpool @x 6x5\n"
                            "e = adaptivemaxpool @x 3\n"
                            "f = globalmaxpool @x\n"
                            "g = conv @x 6 3 padding=same-lower stride=2\n"
                            "h = conv @x 6 2 padding=1,0,0,0\n"
                            "i = conv @s 6 3 padding=2,0\n"
                            "j = conv @i share=i padding=1\n"
                            "k = convtranspose @x 6 3 stride=2 padding=1 output_padding=1 groups=2\n"
                            "l = convtranspose @s 5 4 stride=2 bias=no init=zero\n"
                            "m = convtranspose @x share=k groups=2\n"
                            "n = convtranspose @s 5 share=l stride=2\n");
    has_shapes(model, "m batch,6,17,19; n batch,5,42; a batch,4,7,7; b batch,4,8,9; c batch,4,7,8; "
                      "d batch,4,6,5; e batch,4,3,3; f batch,4,1,1; g batch,6,8,9; h batch,6,15,16; "
                      "i batch,6,20; i.weight 6,6,3; j batch,6,20; k batch,6,30,34; k.weight 4,3,3,3; "
                      "l batch,5,42");
    const kn_graph *graph = kn_model_graph(model);
    assert_null(kn_graph_find(graph, "l.bias"));
    assert_true(kn_graph_find(graph, "l.weight")->initializer.value == 0);
    has_parameters(model, "g.weight g.bias h.weight h.bias i.weight i.bias k.weight k.bias l.weight");
    kn_model_destroy(&model);
}

TEST(norms) {
    kn_model *model = parse("koine 1\ninput x 6x5x7\n"
                            "a = groupnorm 3 freeze\n"
                            "b = groupnorm 2 affine=no\n"
                            "c = instancenorm epsilon=1e-3\n"
                            "d = localnorm 5 alpha=1e-3 beta=0.5 k=2\n"
                            "e = batchnorm affine=no\n"
                            "mean axes=2,3\n"
                            "f = groupnorm @x 2 share=a\n"
                            "g = instancenorm @f share=c\n"
                            "add @f @g\n"
                            "h = standardize @x\n"
                            "sub @h @h\n");
    const kn_graph *graph = kn_model_graph(model);
    has_shape(model, "h", "batch,6,5,7");
    has_shape(model, "x.deviation", "6");
    has_shape(model, "sub1", "batch,6,5,7"); /* no layer has that keyword */
    has_shape(model, "g", "batch,6,5,7");
    has_shape(model, "add1", "batch,6,5,7"); /* likewise */
    has_shape(model, "d", "batch,6,5,7");
    has_shape(model, "mean1", "batch,6"); /* no layer has that keyword */
    has_parameters(model, "a.weight a.bias c.weight c.bias");
    assert_true(kn_graph_find(graph, "a.weight")->frozen && kn_graph_find(graph, "a.bias")->frozen);
    kn_model_destroy(&model);
}

static const kn_attribute_value *attribute(const kn_model *model, const char *value, const char *name) {
    const kn_value *found = kn_graph_find(kn_model_graph(model), value);
    assert_non_null(found);
    assert_non_null(found->producer);
    return kn_attribute_of(found->producer, name);
}

TEST(other_layers) {
    kn_model *model = parse("koine 1\ninput x 4x6x7\n"
                            "n = batchnorm epsilon=1e-3 momentum=0.25\n"
                            "d = dropout 0.25\n"
                            "half = dropout\n"
                            "f = flatten\n"
                            "r = reshape 7x-1x4\n"
                            "r2 = reshape -1\n"
                            "p = parameter 3x4 init=normal:2\n"
                            "s = parameter scalar init=one\n"
                            "two = number 2\n"
                            "mul @p @two\n"
                            "mul @ @s\n");
    assert_true(attribute(model, "n", "epsilon")->number == 1e-3);
    assert_true(attribute(model, "n", "momentum")->number == 0.25);
    assert_true(attribute(model, "d", "rate")->number == 0.25);
    assert_true(attribute(model, "half", "rate")->number == 0.5);
    has_shapes(model, "f batch,168; r batch,7,6,4; r2 batch,168; p 3,4; s; mul2 3,4");
    has_parameters(model, "n.weight n.bias p s");
    kn_model_destroy(&model);
}

TEST(attention_with_dropout) {
    kn_model *model = parse("koine 1\ninput x 5x24\n"
                            "usual = attention_dropout\n"
                            "own = attention_dropout @x heads=4 key_heads=2 causal scale=0.5 rate=0.25\n"
                            "q = linear @x 12\n"
                            "apart = attention_dropout @q @q @q last\n");
    assert_true(attribute(model, "usual", "rate")->number == 0.1);
    assert_int_equal(attribute(model, "usual", "heads")->integer, 1);
    assert_true(attribute(model, "own", "rate")->number == 0.25);
    assert_true(attribute(model, "own", "scale")->number == 0.5);
    assert_int_equal(attribute(model, "own", "key_heads")->integer, 2);
    assert_int_equal(attribute(model, "own", "causal")->integer, 1);
    assert_int_equal(attribute(model, "apart", "last")->integer, 1);
    has_shapes(model, "usual batch,5,8; own batch,5,12; apart batch,5,12");
    kn_model_destroy(&model);
}

TEST(row_norms) {
    kn_model *model = parse("koine 1\ninput x lengthx6\n"
                            "a = layernorm\n"
                            "b = layernorm @x epsilon=1e-3 bias=no\n"
                            "c = rmsnorm @x freeze\n"
                            "d = layernorm @b share=a\n"
                            "e = rmsnorm @d share=c\n");
    const kn_graph *graph = kn_model_graph(model);
    has_shape(model, "a.bias", "6");
    has_shape(model, "e", "batch,length,6");
    has_parameters(model, "a.weight a.bias b.weight c.weight");
    begins(graph, "a.weight", KN_INITIALIZER_FILL, 1);
    assert_true(kn_graph_find(graph, "a.bias")->initializer.value == 0);
    assert_true(kn_graph_find(graph, "c.weight")->frozen);
    assert_true(attribute(model, "b", "epsilon")->number == 1e-3);
    assert_int_equal(kn_graph_find(graph, "d")->producer->input_count, 3);
    kn_model_destroy(&model);
}

/* Attention takes its query, key and value from one line, or from three. */
TEST(attentions) {
    kn_model *model = parse("koine 1\ninput x lengthx12\n"
                            "qkv = linear 36\n"
                            "a = attention heads=2 causal\n"
                            "b = attention @a @x @x heads=4 scale=0.5\n");
    has_shape(model, "a", "batch,length,12");
    has_shape(model, "b", "batch,length,12");
    assert_int_equal(attribute(model, "a", "heads")->integer, 2);
    assert_int_equal(attribute(model, "a", "causal")->integer, 1);
    assert_true(attribute(model, "b", "scale")->number == 0.5);
    kn_model_destroy(&model);
}

TEST(recurrent) {
    kn_model *model = parse("koine 1\ninput x lengthx6\n"
                            "a = lstm 5\n"
                            "b = lstm 5 init=normal:0.1 bias_init=zero freeze\n"
                            "c = lstm @b share=b\n");
    const kn_graph *graph = kn_model_graph(model);
    has_shapes(model, "a batch,length,5; a.weight_ih 20,6; b.weight_hh 20,5; a.bias_hh 20; "
                      "c batch,length,5");
    has_parameters(model,
                   "a.weight_ih a.weight_hh a.bias_ih a.bias_hh b.weight_ih b.weight_hh b.bias_ih b.bias_hh");
    assert_int_equal(kn_graph_find(graph, "a.weight_ih")->initializer.kind, KN_INITIALIZER_UNIFORM);
    assert_true(fabs(kn_graph_find(graph, "a.weight_ih")->initializer.value - 1 / sqrt(5)) < 1e-15);
    assert_int_equal(kn_graph_find(graph, "b.weight_hh")->initializer.kind, KN_INITIALIZER_NORMAL);
    assert_int_equal(kn_graph_find(graph, "b.bias_ih")->initializer.kind, KN_INITIALIZER_FILL);
    assert_true(kn_graph_find(graph, "b.weight_hh")->frozen && kn_graph_find(graph, "b.bias_hh")->frozen);
    kn_model_destroy(&model);
}

TEST(recurrent_options) {
    kn_model *model = parse("koine 1\ninput x lengthx6\ninput lengths scalar int32\n"
                            "a = gru @x @lengths 5 layers=2 bidirectional dropout=0.25 freeze\n"
                            "b = gru @a 7 last\n"
                            "c = rnn @a 7 function=relu stateful=yes\n"
                            "d = lstm @x @lengths 4 bidirectional=yes last=yes\n");
    const kn_graph *graph = kn_model_graph(model);
    has_shapes(model, "a batch,length,10; a.weight_ih_l1_reverse 15,10; a.weight_hh_reverse 15,5; "
                      "b batch,7; c batch,length,7; c.weight_hh 7,7; c.state batch,7; d batch,8");
    assert_int_equal(attribute(model, "c", "relu")->integer, 1);
    assert_int_equal(attribute(model, "a.result_reverse", "reverse")->integer, 1);
    assert_true(kn_graph_find(graph, "a.bias_hh_l1_reverse")->frozen);
    assert_false(kn_graph_find(graph, "c.bias_hh")->frozen);
    assert_non_null(kn_graph_find(graph, "c.state")->assign);
    assert_non_null(kn_graph_find(graph, "a.dropped"));
    assert_null(kn_graph_find(graph, "a.dropped_l1"));
    kn_model_destroy(&model);
}

TEST(operators) {
    kn_model *model = parse("koine 1\ninput x 4x6x8\n"
                            "a = leaky_relu slope=0.2\n"
                            "b = softmax axis=-2\n"
                            "c = sum axes=1,3 keep\n"
                            "d = mean @b axes=2 keep=no\n"
                            "e = transpose @b permutation=0,2,3,1\n"
                            "f = clip @b low=-1 high=2.5\n"
                            "g = concat @a @b @f axis=1\n"
                            "h = broadcast @c shape=batch,4,6,8\n"
                            "i = add @a @b\n"
                            "j = where @i @a @b\n");
    assert_true(attribute(model, "a", "slope")->number == 0.2);
    assert_int_equal(attribute(model, "b", "axis")->integer, -2);
    assert_true(attribute(model, "f", "low")->number == -1);
    has_shapes(model, "c batch,1,6,1; d batch,4,8; e batch,6,8,4; g batch,12,6,8; h batch,4,6,8");
    kn_model_destroy(&model);
}

/* Builders that are not rows of the operator table. */
TEST(shapes) {
    kn_model *model = parse("koine 1\ninput x 4x6x8\ninput n 5 int32\n"
                            "a = unsqueeze @x 1,-1\n"
                            "b = squeeze @a -1\n"
                            "c = squeeze @a\n"
                            "d = tile @x 2x1x3\n"
                            "e = repeat_elements @x 3 axis=1\n"
                            "f = depth_to_space @x 2\n"
                            "g = space_to_depth @f 2 order=pixels\n"
                            "h = upsample @x 12x4 mode=linear coordinates=align_corners\n"
                            "i = upsample @x 9 rounding=floor\n"
                            "j = padimage @x 1,2,3,4\n"
                            "k = padimage @x 1 mode=wrap\n"
                            "l = argmax @x 1\n"
                            "m = argmin @x keep\n"
                            "o = one_hot @n 7 axis=1\n"
                            "p = tril @x\n"
                            "q = triu @x 1\n"
                            "r = resize @x axis=2 size=3 mode=cubic\n"
                            "s = gather @x @l axis=2\n"
                            "t = top_k @x k=3 axis=-2 smallest\n"
                            "u = flip @x axes=1,2\n"
                            "v = and @p @q\n"
                            "w = einsum @x @x equation=bchw,bchv->bcwv\n"
                            "aa = reshape @n 5x1\n"
                            "ab = gather_nd @x @aa\n"
                            "ac = stack @x @x @x\n"
                            "ad = reduce_l2 @x 2,-1 keep\n"
                            "ae = reduce_log_sum_exp @x axes=1\n"
                            "af = reduce_prod @x -1\n"
                            "ag = cosine_similarity @x @p\n"
                            "ah = reduce_sum_square @x 1,2,3\n"
                            "ai = reduce_l1 @x\n"
                            "aj = reduce_log_sum @x 3\n"
                            "ak = cosine_embedding @x @p @af margin=0.25\n"
                            "al = triplet_margin @x @p @x 0.5\n"
                            "am = margin_ranking @x @p @x\n"
                            "y = reshape @x 192\n"
                            "z = spectrogram @y 16 8 3 rate=1000 low=50 high=400 floor=1e-5\n"
                            "sp = spectrogram @y 16 8 log=no\n");
    has_shapes(model, "z batch,23,3; sp batch,23,9; w batch,4,8,8; ab batch,5,6,8; ac batch,3,4,6,8; "
                      "ad batch,4,1,1; ae batch,6,8; af batch,4,6; ag batch,4,6; ah batch; ai; "
                      "aj batch,4,6; ak; al; am; a batch,1,4,6,8,1; b batch,1,4,6,8; c batch,4,6,8; "
                      "d batch,8,6,24; e batch,12,6,8; f batch,1,12,16; g batch,4,6,8; h batch,4,12,4; "
                      "i batch,4,9,9; j batch,4,10,14; k batch,4,8,10; l batch,6,8; m batch,4,6,1; "
                      "o batch,7,5; q batch,4,6,8; r batch,4,3,8; s batch,4,batch,6,8,8; t batch,4,3,8");
    const kn_graph *graph = kn_model_graph(model);
    const kn_value *resized = kn_graph_find(graph, "h");
    assert_int_equal(kn_attribute_of(resized->producer, "mode")->integer, 1);
    assert_int_equal(kn_attribute_of(resized->producer, "coordinates")->integer, 1);
    assert_int_equal(attribute(model, "i", "rounding")->integer, 2);
    kn_model_destroy(&model);
}

/* Every row of the operator table that a text may use is a kind: the reader takes its name, its number of
 * inputs and its attributes from the row. */
TEST(whole_table) {
    int tried = 0;
    for (int i = 0; i < kn_operator_table_count; i++) {
        const kn_operator *row = kn_operator_table[i];
        char text[512];
        int least, most;
        if (row->backward || row->random || row->class == KN_CLASS_ASSIGN) continue;
        kn_operator_arity(row, &least, &most);
        snprintf(text, sizeof text, "koine 1\ninput x 2x2\nname = %s", row->name);
        for (int k = 0; k < least; k++)
            strncat(text, " @x", sizeof text - strlen(text) - 1);
        strncat(text, "\n", sizeof text - strlen(text) - 1);
        kn_model *model = kn_model_parse(text, NULL);
        const char *error = kn_model_error(model);
        /* Shapes or numbers may be invalid for it, but the name is known. */
        if (strstr(error, "expected a kind of layer") || strstr(error, "found 'name"))
            fail_msg("%s: %s", row->name, error);
        tried++;
        kn_model_destroy(&model);
    }
    assert_true(tried > 40);
}

TEST(grammar) {
    size_t length = kn_model_grammar(NULL, 0);
    assert_true(length > 5000);
    char *page = malloc(length + 1), cut[64];
    assert_non_null(page);
    assert_int_equal(kn_model_grammar(page, length + 1), length);
    assert_int_equal(strlen(page), length);
    assert_non_null(strstr(page, "| `conv channels size` | |"));
    assert_null(strstr(page, "kn_"));
    assert_null(strstr(page, "e18")); /* a default that means "no number" is printed as none */
    for (int i = 0; i < kn_operator_table_count; i++) {
        const kn_operator *row = kn_operator_table[i];
        char word[128];
        snprintf(word, sizeof word, "| `%s", row->name);
        if (row->backward || row->class == KN_CLASS_ASSIGN)
            assert_null(strstr(page, word));
        else if (!row->random && !strstr(page, word))
            fail_msg("the page lacks %s", row->name);
    }
    assert_int_equal(kn_model_grammar(cut, sizeof cut), length);
    assert_int_equal(strlen(cut), sizeof cut - 1);
    assert_memory_equal(cut, page, sizeof cut - 1);
    free(page);
}

/* The examples of the page are valid models. */
TEST(grammar_examples) {
    size_t length = kn_model_grammar(NULL, 0);
    char *page = malloc(length + 1);
    assert_non_null(page);
    kn_model_grammar(page, length + 1);
    char *begin = strstr(page, "```\n") + 4, *end = strstr(begin, "```\n");
    char *block = strstr(end + 4, "```\n") + 4, *block_end = strstr(block, "```\n");
    *end = *block_end = '\0';
    kn_model *model = parse(begin);
    has_parameters(model, "conv1.weight conv1.bias logits.weight logits.bias");
    kn_model_destroy(&model);
    char text[4096];
    snprintf(text, sizeof text, "koine 1\ninput x 64x8x8\n%s", block);
    model = parse(text);
    assert_non_null(kn_graph_find(kn_model_graph(model), "stage2.residual1.conv1.weight"));
    kn_model_destroy(&model);
    free(page);
}

TEST_FILE(test_layers, NULL, NULL)
