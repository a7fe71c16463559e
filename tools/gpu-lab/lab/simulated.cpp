/* Runs some work-groups of a launch in GPGPU-Sim and prints the cycles that they take. lab/cycles.py builds
 * it, writes its input and reads its output.
 *
 * usage: simulated FILE
 *
 * The configuration of the simulated GPU is gpgpusim.config in the folder where it runs. FILE has the launch,
 * by line:
 *
 *     ptx PATH
 *     kernel NAME REGISTERS LOCAL_BYTES        as ptxas counts them
 *     launch GX GY GZ LX LY LZ                 work-groups, and work-items of a work-group
 *     first N                                  work-groups that are left out before the first that runs
 *     buffer BYTES NUMBER                      an argument filled with a float; of no bytes: null
 *     number HEX                               an argument, its bytes in order
 *
 * -gpgpu_max_cta of the configuration says how many work-groups run. The last line that is printed begins
 * with "simulated" and has a JSON object; what the simulator prints comes before it.
 *
 * The simulator's own classes are used, since its CUDA interface takes programs out of executables alone, and
 * cannot begin in the middle of a launch. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "libcuda/gpgpu_context.h"

namespace {

const size_t BLOCK = 4096; /* bytes that are written at a time */

struct Argument {
    std::string value; /* its bytes */
    addr_t buffer;     /* 0: none */
    size_t bytes;
};

struct Launch {
    std::string ptx, kernel;
    int registers = 0, local_bytes = 0;
    dim3 groups, items;
    size_t first = 0;
    std::vector<Argument> arguments;
};

std::string text_of(const std::string &path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error("cannot open " + path);
    return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

std::string bytes_of(const std::string &hex) {
    std::string bytes;
    for (size_t i = 0; i + 1 < hex.size(); i += 2)
        bytes += (char)std::stoul(hex.substr(i, 2), nullptr, 16);
    return bytes;
}

/* Memory that was not written reads as zeros. */
void fill(gpgpu_sim *gpu, addr_t buffer, size_t bytes, float number) {
    if (number == 0) return;
    std::vector<float> block(BLOCK / sizeof number, number);
    for (size_t at = 0; at < bytes; at += BLOCK)
        gpu->get_global_memory()->write(buffer + at, std::min(BLOCK, bytes - at), block.data(), NULL, NULL);
}

Argument buffer_of(gpgpu_sim *gpu, size_t bytes, float number) {
    addr_t buffer = bytes ? (addr_t)(size_t)gpu->gpu_malloc(bytes) : 0;
    fill(gpu, buffer, bytes, number);
    return {std::string((const char *)&buffer, sizeof buffer), buffer, bytes};
}

Launch read(gpgpu_sim *gpu, const char *path) {
    std::istringstream lines(text_of(path));
    Launch launch;
    for (std::string line, word; std::getline(lines, line);) {
        std::istringstream words(line);
        words >> word;
        if (word == "ptx") {
            words >> launch.ptx;
        } else if (word == "kernel") {
            words >> launch.kernel >> launch.registers >> launch.local_bytes;
        } else if (word == "launch") {
            words >> launch.groups.x >> launch.groups.y >> launch.groups.z >> launch.items.x >>
                launch.items.y >> launch.items.z;
        } else if (word == "first") {
            words >> launch.first;
        } else if (word == "buffer") {
            size_t bytes = 0;
            float number = 0;
            words >> bytes >> number;
            launch.arguments.push_back(buffer_of(gpu, bytes, number));
        } else if (word == "number") {
            std::string hex;
            words >> hex;
            launch.arguments.push_back({bytes_of(hex), 0, 0});
        } else {
            throw std::runtime_error("unknown line: " + line);
        }
        if (!words) throw std::runtime_error("incomplete line: " + line);
    }
    return launch;
}

/* The kernel, with what it needs of a unit. */
function_info *load(gpgpu_context *simulator, const Launch &launch) {
    symbol_table *program = simulator->gpgpu_ptx_sim_load_ptx_from_string(text_of(launch.ptx).c_str(), 1);
    symbol *found = program->lookup(launch.kernel.c_str());
    if (!found || !found->get_pc()) throw std::runtime_error("no kernel " + launch.kernel);
    function_info *kernel = found->get_pc();
    gpgpu_ptx_sim_info needs = {};
    needs.regs = launch.registers;
    needs.smem = launch.local_bytes;
    kernel->set_kernel_info(needs);
    return kernel;
}

kernel_info_t *prepare(function_info *kernel, const Launch &launch) {
    kernel_info_t *run = new kernel_info_t(launch.groups, launch.items, kernel,
                                           std::map<std::string, const struct cudaArray *>(),
                                           std::map<std::string, const struct textureInfo *>());
    if (kernel->num_args() != launch.arguments.size())
        throw std::runtime_error("the kernel takes " + std::to_string(kernel->num_args()) +
                                 " arguments, not " + std::to_string(launch.arguments.size()));
    for (unsigned i = 0; i < launch.arguments.size(); i++) {
        const std::string &value = launch.arguments[i].value;
        std::pair<size_t, unsigned> place = kernel->get_param_config(i); /* size and offset */
        if (place.first != value.size()) throw std::runtime_error("an argument has another size");
        gpgpu_ptx_sim_arg argument(value.data(), value.size(), place.second);
        kernel->add_param_data(i, &argument);
    }
    kernel->finalize(run->get_param_memory());
    kernel->do_pdom();
    kernel->set_pdom();
    for (size_t i = 0; i < launch.first; i++)
        run->increment_cta_id();
    return run;
}

void simulate(gpgpu_sim *gpu, kernel_info_t *run) {
    gpu->init();
    gpu->launch(run);
    while (gpu->active()) {
        gpu->cycle();
        gpu->deadlock_check();
    }
}

/* The last number of each buffer. */
void print_ends(gpgpu_sim *gpu, const Launch &launch) {
    const char *between = "";
    for (const Argument &argument : launch.arguments)
        if (argument.bytes >= sizeof(float)) {
            float number = 0;
            gpu->get_global_memory()->read(argument.buffer + argument.bytes - sizeof number, sizeof number,
                                           &number);
            std::cout << between << (number == number ? std::to_string(number) : "null");
            between = ", ";
        }
}

} /* namespace */

int main(int count, char **words) {
    if (count != 2) return 2;
    try {
        gpgpu_context *simulator = GPGPU_Context();
        gpgpu_sim *gpu = simulator->gpgpu_ptx_sim_init_perf();
        Launch launch = read(gpu, words[1]);
        kernel_info_t *run = prepare(load(simulator, launch), launch);
        simulate(gpu, run);
        std::cout << std::endl
                  << "simulated {\"cycles\": " << gpu->gpu_sim_cycle
                  << ", \"instructions\": " << gpu->gpu_sim_insn << ", \"ends\": [";
        print_ends(gpu, launch);
        std::cout << "]}" << std::endl;
    } catch (const std::exception &problem) {
        std::cout << std::endl << "simulated {\"error\": \"" << problem.what() << "\"}" << std::endl;
    }
    fflush(stdout);
    _Exit(0); /* the simulator's destructors end threads that were not begun */
}
