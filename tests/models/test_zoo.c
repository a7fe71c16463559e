/* The models of the zoo. */
#include "models_tests.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

TEST(list) {
    assert_true(kn_zoo_count() >= 3);
    assert_null(kn_zoo_name_at(-1));
    assert_null(kn_zoo_name_at(kn_zoo_count()));
    assert_null(kn_zoo_text_at(kn_zoo_count()));
    for (size_t i = 1; i < kn_zoo_count(); i++)
        assert_true(strcmp(kn_zoo_name_at(i - 1), kn_zoo_name_at(i)) < 0);
}

/* Every text in the folder is in the library, byte for byte. */
TEST(folder) {
    int count = 0;
    DIR *directory = opendir(ZOO_FOLDER);
    assert_non_null(directory);
    for (const struct dirent *item; (item = readdir(directory));) {
        const char *ending = strstr(item->d_name, ".koine");
        char path[4096], text[16384];
        if (!ending) continue;
        FILE *file = fopen(test_path(path, sizeof path, ZOO_FOLDER, item->d_name), "rb");
        assert_non_null(file);
        size_t bytes = fread(text, 1, sizeof text - 1, file);
        fclose(file);
        text[bytes] = '\0';
        const char *known = NULL;
        for (size_t i = 0; i < kn_zoo_count(); i++) {
            size_t length = strlen(kn_zoo_name_at(i));
            if (item->d_name + length == ending && !strncmp(kn_zoo_name_at(i), item->d_name, length))
                known = kn_zoo_text_at(i);
        }
        if (!known) fail_msg("%s is not in the library", item->d_name);
        assert_string_equal(known, text);
        count++;
    }
    closedir(directory);
    assert_int_equal(count, kn_zoo_count());
}

/* Each is valid, named after its file, canonical, explained, and can be trained. */
TEST(all) {
    for (size_t i = 0; i < kn_zoo_count(); i++) {
        kn_model *model = kn_model_create_named(kn_zoo_name_at(i), NULL);
        if (kn_model_status(model) != KN_OK) fail_msg("%s", kn_model_error(model));
        assert_string_equal(kn_model_name(model), kn_zoo_name_at(i));
        assert_string_equal(kn_model_text(model), kn_zoo_text_at(i));
        assert_non_null(strstr(kn_zoo_text_at(i), "\n# "));
        assert_true(kn_model_parameter_elements(model) > 0);
        kn_model_loss loss = KN_MODEL_LOSS_DEFAULTS;
        assert_int_equal(kn_model_add_loss(model, NULL, &loss), KN_OK);
        assert_int_equal(kn_value_rank(loss.value), 0);
        kn_model_destroy(&model);
    }
}

TEST(lenet) {
    kn_model *model = kn_model_open("lenet", NULL);
    assert_string_equal(kn_model_error(model), "");
    has_parameters(
        model, "conv1.weight conv1.bias conv2.weight conv2.bias linear1.weight linear1.bias logits.weight "
               "logits.bias");
    has_shapes(model, "conv1.weight 32,1,3,3; conv1.bias 32; conv2.weight 64,32,3,3; "
                      "linear1.weight 128,9216; logits.weight 10,128; logits batch,10; x batch,1,28,28");
    assert_int_equal(kn_model_parameter_elements(model), 1199882);
    assert_string_equal(kn_value_name(kn_model_output_at(model, 0)), "logits");
    kn_model_destroy(&model);
}

TEST(mlp_and_linear) {
    kn_model *model = kn_model_create_named("mlp", NULL);
    has_parameters(model,
                   "linear1.weight linear1.bias linear2.weight linear2.bias logits.weight logits.bias");
    has_shapes(model, "linear1.weight 512,784; linear2.weight 512,512; logits.weight 10,512");
    kn_model_destroy(&model);
    model = kn_model_create_named("linear", NULL);
    has_parameters(model, "logits.weight logits.bias");
    has_shape(model, "logits.weight", "10,784");
    kn_model_destroy(&model);
}

/* The numbers of parameters match the published networks. */
TEST(networks_of_images) {
    static const struct {
        const char *name, *input, *logits;
        int64_t parameters;
    } known[] = {
        {"alexnet", "batch,3,224,224", "batch,1000", 61100840},
        {"alexnet2012", "batch,3,227,227", "batch,1000", 60965224},
        {"cifar-cnn", "batch,3,32,32", "batch,10", 2168362},
        {"keyword", "batch,1,8000", "batch,8", 130920},
        {"mobilenetv2", "batch,3,224,224", "batch,1000", 3504872},
        {"resnet18", "batch,3,224,224", "batch,1000", 11689512},
        {"resnet18c", "batch,3,32,32", "batch,10", 11173962},
        {"resnet50", "batch,3,224,224", "batch,1000", 25557032},
        {"squeezenet", "batch,3,224,224", "batch,1000", 1235496},
        {"unet", "batch,1,256,256", "batch,256,256,2", 31030658},
        {"vgg11", "batch,3,224,224", "batch,1000", 132863336},
        {"vgg11c", "batch,3,32,32", "batch,10", 9231114},
        {"vit-tiny", "batch,3,32,32", "batch,10", 5362762},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        kn_model *model = kn_model_create_named(known[i].name, NULL);
        has_shape(model, "x", known[i].input);
        has_shape(model, "logits", known[i].logits);
        assert_int_equal(kn_model_parameter_elements(model), known[i].parameters);
        kn_model_destroy(&model);
    }
    kn_model *model = kn_model_create_named("resnet50", NULL);
    /* 4.09 billion multiply-adds in convolutions and matmuls, plus elementwise work. */
    assert_true(kn_model_flops(model) > 2 * 4.08e9 && kn_model_flops(model) < 2 * 4.2e9);
    has_shape(model, "maxpool1", "batch,64,56,56");
    has_shape(model, "stage4.residual2.conv3.weight", "2048,512,1,1");
    kn_model_destroy(&model);
    model = kn_model_create_named("mobilenetv2", NULL);
    has_shape(model, "stage2.depthwise1.conv1.weight", "144,1,3,3");
    has_shape(model, "expand1.conv1", "batch,1280,7,7");
    kn_model_destroy(&model);
    model = kn_model_create_named("alexnet", NULL);
    has_shape(model, "linear1.weight", "4096,9216");
    kn_model_destroy(&model);
    model = kn_model_create_named("alexnet2012", NULL);
    has_shapes(model, "conv2.weight 256,48,5,5; localnorm2 batch,256,27,27; linear1.weight 4096,9216");
    kn_model_destroy(&model);
    model = kn_model_create_named("squeezenet", NULL);
    has_shape(model, "globalavgpool1", "batch,1000,1,1");
    has_shape(model, "maxpool3", "batch,256,13,13");
    kn_model_destroy(&model);
    model = kn_model_create_named("autoencoder", NULL);
    has_shape(model, "code", "batch,32");
    has_shape(model, "image", "batch,1,28,28");
    kn_model_destroy(&model);
}

/* The numbers of parameters match PyTorch's count for the same networks. */
TEST(networks_of_sequences) {
    kn_model *model = kn_model_create_named("lstm", NULL);
    has_shapes(model, "x batch,64; embedding1.weight 96,128; lstm2.weight_ih 2048,512; logits batch,64,96");
    assert_int_equal(kn_model_parameter_elements(model), 3477600);
    kn_model_destroy(&model);
    model = kn_model_create_named("char-gru", NULL);
    has_shapes(model, "gru1.weight_ih 1536,128; gru2.weight_hh 1536,512; logits batch,64,96");
    assert_int_equal(kn_model_parameter_elements(model), 2623584);
    kn_model_destroy(&model);
    model = kn_model_create_named("elman", NULL);
    has_shape(model, "rnn1.weight_hh", "256,256");
    has_shape(model, "logits", "batch,64,96");
    assert_int_equal(kn_model_parameter_elements(model), 113248);
    kn_model_destroy(&model);
    model = kn_model_create_named("gpt", NULL);
    has_shapes(model, "x batch,128; position_embedding 128,384; layer6.qkv.weight 1152,384; "
                      "layer6.fc2.weight 384,1536; logits batch,128,96");
    assert_null(kn_graph_find(kn_model_graph(model), "logits.bias"));
    assert_int_equal(kn_model_parameter_elements(model), 10770432);
    kn_model_destroy(&model);
}

/* Settings follow the name; the caller's settings override them. */
TEST(sizes) {
    const kn_model_setting wanted[] = {{"layers", 3}};
    kn_model_params params = KN_MODEL_DEFAULTS;
    params.settings = wanted;
    params.setting_count = 1;
    kn_model *model = kn_model_open("gpt,layers=2,width=60", &params);
    assert_string_equal(kn_model_error(model), "");
    assert_string_equal(kn_model_name(model), "gpt");
    has_shape(model, "layer3.qkv.weight", "180,60");
    assert_null(kn_graph_find(kn_model_graph(model), "layer4.qkv.weight"));
    kn_model_destroy(&model);
    model = kn_model_create_named("vit-tiny,size=64,classes=3", NULL);
    has_shape(model, "position_embedding", "257,192");
    has_shape(model, "logits", "batch,3");
    kn_model_destroy(&model);
    model = kn_model_create_named("gpt,layers=2,", NULL);
    assert_int_equal(kn_model_status(model), KN_ERROR_ARGUMENT);
    assert_string_equal(kn_model_error(model),
                        "gpt,layers=2,: found '', expected NAME=NUMBER, separated by commas");
    kn_model_destroy(&model);
}

TEST(unknown) {
    kn_model *model = kn_model_open("lennet", NULL);
    assert_int_equal(kn_model_status(model), KN_ERROR_NOT_FOUND);
    assert_non_null(strstr(kn_model_error(model), "found 'lennet', expected a file or a model name: "));
    assert_non_null(strstr(kn_model_error(model), "; did you mean 'lenet'?"));
    kn_model_destroy(&model);
    model = kn_model_open("lenet.onxn", NULL);
    assert_int_equal(kn_model_status(model), KN_ERROR_NOT_FOUND);
    assert_string_equal(kn_model_error(model), "no such file: 'lenet.onxn'");
    kn_model_destroy(&model);
    model = kn_model_create_named("mpl", NULL);
    assert_non_null(strstr(kn_model_error(model), "found 'mpl', expected a model name: "));
    assert_non_null(strstr(kn_model_error(model), "; did you mean 'mlp'?"));
    kn_model_destroy(&model);
    model = kn_model_create_named("", NULL);
    assert_int_equal(kn_model_status(model), KN_ERROR_NOT_FOUND);
    kn_model_destroy(&model);
}

TEST_FILE(test_zoo, NULL, NULL)
