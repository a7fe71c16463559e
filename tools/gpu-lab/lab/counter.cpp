/* Runs a few work-groups of each launch in Oclgrind's interpreter and counts what its work-items did: memory
 * sectors, passes of local memory, bytes, instructions, multiply-adds. lab/counts.py builds it, writes its
 * input and reads its output.
 *
 * usage: counter WAVE FILE
 *
 * WAVE is the number of work-items that execute an instruction together. FILE has a program and its launches,
 * by line:
 *
 *     program PATH                  a text in OpenCL C
 *     options WORD...               of the compiler
 *     launch NAME KERNEL GX GY GZ LX LY LZ     any name, the sizes of the launch and of a work-group
 *     number VALUE                  an argument; of integers and of floating point alike
 *     buffer BYTES                  filled with zeros
 *     local BYTES
 *     end                           of the launch, which runs now
 *
 * For each launch a line is printed: a JSON object with its name and counts, or with an "error".
 *
 * Work-items run one after another, up to a barrier. What a wave does at a time follows from their records:
 * between two barriers, the n-th execution of an instruction by each of its work-items. A GPU has
 * instructions of 16 bytes at most, so that a longer access counts as several. */
#include <oclgrind/Context.h>
#include <oclgrind/Kernel.h>
#include <oclgrind/KernelInvocation.h>
#include <oclgrind/Memory.h>
#include <oclgrind/Plugin.h>
#include <oclgrind/Program.h>
#include <oclgrind/WorkGroup.h>
#include <oclgrind/WorkItem.h>

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <fstream>
#include <tuple>

namespace {

const size_t SECTOR = 32, PIECE = 16, WORD = 4, BANKS = 32, PLANES = 4;

/* ---- inside Oclgrind ---------------------------------------------------------------------------- */

/* A private member, opened by an explicit instantiation, to which no access rules apply. */
template <typename Name, typename Name::type member> struct Opened {
    friend typename Name::type open(Name) { return member; }
};
struct WorkGroups {
    typedef std::vector<oclgrind::Size3> oclgrind::KernelInvocation::*type;
    friend type open(WorkGroups);
};
struct ProgramModule {
    typedef std::unique_ptr<llvm::Module> oclgrind::Program::*type;
    friend type open(ProgramModule);
};
template struct Opened<WorkGroups, &oclgrind::KernelInvocation::m_workGroups>;
template struct Opened<ProgramModule, &oclgrind::Program::m_module>;

/* Takes out what only optimizers need to know, and Oclgrind 21.10 does not know. */
void tidy(oclgrind::Program &program) {
    for (llvm::Function &function : *(program.*open(ProgramModule()))) {
        std::vector<llvm::Instruction *> unknown;
        for (llvm::Instruction &instruction : llvm::instructions(function))
            if (llvm::isa<llvm::FreezeInst>(instruction) ||
                llvm::isa<llvm::NoAliasScopeDeclInst>(instruction))
                unknown.push_back(&instruction);
        for (llvm::Instruction *instruction : unknown) {
            if (llvm::isa<llvm::FreezeInst>(instruction))
                instruction->replaceAllUsesWith(instruction->getOperand(0));
            instruction->eraseFromParent();
        }
    }
}

/* Only the work-groups in the middle of some planes are left to run: of all values of the third dimension, or
 * of PLANES of them, since work-groups often have different tasks by it. */
void leave_few(const oclgrind::KernelInvocation *launch) {
    oclgrind::Size3 groups = launch->getNumGroups();
    size_t planes = std::min(groups.z, PLANES);
    std::vector<oclgrind::Size3> left;
    for (size_t i = 0; i < planes; i++)
        left.emplace_back((groups.x - 1) / 2, (groups.y - 1) / 2, (2 * i + 1) * groups.z / (2 * planes));
    const_cast<oclgrind::KernelInvocation *>(launch)->*open(WorkGroups()) = left;
}

/* ---- what an instruction is --------------------------------------------------------------------- */

unsigned lanes_of(const llvm::Type *type) {
    const auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
    return vector ? vector->getNumElements() : 1;
}

/* The name of the function that is called, without what C++ adds for types: mad for _Z3madfff. Empty for
 * other instructions. */
std::string called(const llvm::Instruction *instruction) {
    const auto *call = llvm::dyn_cast<llvm::CallInst>(instruction);
    const llvm::Function *function = call ? call->getCalledFunction() : nullptr;
    std::string name = function ? function->getName().str() : "";
    if (name.compare(0, 2, "_Z") != 0 || !isdigit((unsigned char)name[2])) return name;
    size_t end = 0, length = std::stoul(name.substr(2), &end);
    return name.substr(2 + end, length);
}

bool begins(const std::string &text, const char *word) {
    return text.compare(0, strlen(word), word) == 0;
}

struct Work {
    unsigned instructions;  /* of a GPU, whose arithmetic is on single numbers */
    unsigned multiply_adds; /* among them */
};

/* Instructions for `bytes` of memory. */
unsigned pieces(size_t bytes) {
    return (unsigned)((bytes + PIECE - 1) / PIECE);
}

/* What has no instruction of a GPU counts as none: names of values, parts of vectors, constant distances. */
Work work_of(const llvm::Instruction *instruction) {
    std::string name = called(instruction);
    unsigned lanes = lanes_of(instruction->getType());
    if (name == "fma" || name == "mad" || begins(name, "llvm.fmuladd") || begins(name, "llvm.fma."))
        return {lanes, lanes};
    if (begins(name, "llvm.lifetime") || begins(name, "llvm.dbg") || begins(name, "llvm.assume"))
        return {0, 0};
    if (begins(name, "vload")) return {pieces(oclgrind::getTypeSize(instruction->getType())), 0};
    if (begins(name, "vstore"))
        return {pieces(oclgrind::getTypeSize(instruction->getOperand(0)->getType())), 0};
    if (const auto *store = llvm::dyn_cast<llvm::StoreInst>(instruction))
        return {pieces(oclgrind::getTypeSize(store->getValueOperand()->getType())), 0};
    if (llvm::isa<llvm::LoadInst>(instruction))
        return {pieces(oclgrind::getTypeSize(instruction->getType())), 0};
    if (const auto *place = llvm::dyn_cast<llvm::GetElementPtrInst>(instruction))
        return {place->hasAllConstantIndices() ? 0u : 1u, 0};
    if (const auto *branch = llvm::dyn_cast<llvm::BranchInst>(instruction))
        return {branch->isConditional() ? 1u : 0u, 0};
    switch (instruction->getOpcode()) {
    case llvm::Instruction::PHI:
    case llvm::Instruction::Alloca:
    case llvm::Instruction::BitCast:
    case llvm::Instruction::AddrSpaceCast:
    case llvm::Instruction::PtrToInt:
    case llvm::Instruction::IntToPtr:
    case llvm::Instruction::ExtractElement:
    case llvm::Instruction::InsertElement:
    case llvm::Instruction::ShuffleVector:
    case llvm::Instruction::ExtractValue:
    case llvm::Instruction::InsertValue:
        return {0, 0};
    default:
        return {lanes, 0};
    }
}

/* FILE:LINE, as #line has it, or nothing. */
std::string place_in_source(const llvm::Instruction *instruction) {
    const llvm::DILocation *place = instruction->getDebugLoc();
    return place ? place->getFilename().str() + ":" + std::to_string(place->getLine()) : "";
}

/* ---- requests ----------------------------------------------------------------------------------- */

enum Kind { LOAD, STORE, LOCAL, KINDS };

/* At most PIECE bytes that a work-item accesses in the n-th execution of an instruction. */
struct Access {
    uint32_t n, item;
    uint16_t piece;
    uint8_t kind, bytes;
    uint64_t address;
};

/* Units of `unit` bytes that were touched, each with a bit for every byte. */
typedef std::vector<std::pair<uint64_t, uint32_t>> Touched;

void touch(Touched &touched, const Access &access, size_t unit) {
    for (uint64_t at = access.address, end = at + access.bytes; at < end;) {
        uint64_t place = at / unit, stop = std::min(end, (place + 1) * unit);
        uint32_t bits = (uint32_t)(((1ull << (stop - at)) - 1) << (at - place * unit));
        touched.emplace_back(place, bits);
        at = stop;
    }
}

void merge(Touched &touched) {
    std::sort(touched.begin(), touched.end());
    size_t kept = 0;
    for (size_t i = 0; i < touched.size(); i++) {
        if (kept && touched[kept - 1].first == touched[i].first)
            touched[kept - 1].second |= touched[i].second;
        else
            touched[kept++] = touched[i];
    }
    touched.resize(kept);
}

uint64_t bytes_in(const Touched &touched) {
    uint64_t bytes = 0;
    for (const auto &unit : touched)
        bytes += (uint64_t)__builtin_popcount(unit.second);
    return bytes;
}

uint64_t divide_up(uint64_t a, uint64_t b) {
    return (a + b - 1) / b;
}

/* Of global memory, transfers are sectors; of local memory, passes over all banks. */
struct Requests {
    uint64_t requests = 0, transfers = 0, least = 0, bytes = 0;

    void add(const Requests &other) {
        requests += other.requests;
        transfers += other.transfers;
        least += other.least;
        bytes += other.bytes;
    }
};

/* ---- the plugin --------------------------------------------------------------------------------- */

class Counter : public oclgrind::Plugin {
  public:
    Counter(const oclgrind::Context *context, unsigned wave) : Plugin(context), wave(wave) {}

    void reset() {
        numbers.clear();
        seen.clear();
        for (Kind kind : {LOAD, STORE}) {
            touched[kind].clear();
            distinct[kind] = 0;
        }
        slots = groups = 0;
        complaint.clear();
    }

    void print(const std::string &launch) {
        if (!complaint.empty()) {
            std::cout << "{\"launch\": \"" << launch << "\", \"error\": \"" << complaint << "\"}"
                      << std::endl;
            return;
        }
        uint64_t instructions = 0, multiply_adds = 0;
        for (const Seen &one : seen) {
            instructions += one.executed * one.work.instructions;
            multiply_adds += one.executed * one.work.multiply_adds;
        }
        Work64 hot = hottest();
        std::cout << "{\"launch\": \"" << launch << "\", \"groups\": " << groups;
        for (int kind = 0; kind < KINDS; kind++)
            print_requests((Kind)kind);
        std::cout << ", \"load_distinct\": " << distinct[LOAD] << ", \"store_distinct\": " << distinct[STORE]
                  << ", \"instructions\": " << instructions << ", \"slots\": " << slots
                  << ", \"multiply_adds\": " << multiply_adds
                  << ", \"hot_instructions\": " << hot.instructions
                  << ", \"hot_multiply_adds\": " << hot.multiply_adds << "}" << std::endl;
    }

    /* Oclgrind's calls */

    void kernelBegin(const oclgrind::KernelInvocation *launch) override {
        leave_few(launch);
        oclgrind::Size3 local = launch->getLocalSize();
        items = (unsigned)(local.x * local.y * local.z);
    }
    void workGroupBarrier(const oclgrind::WorkGroup *, uint32_t) override { settle(); }
    void workGroupComplete(const oclgrind::WorkGroup *) override {
        settle();
        groups++;
        for (Kind kind : {LOAD, STORE}) {
            for (const auto &sector : touched[kind])
                distinct[kind] += (uint64_t)__builtin_popcount(sector.second);
            touched[kind].clear();
        }
    }
    void instructionExecuted(const oclgrind::WorkItem *item, const llvm::Instruction *instruction,
                             const oclgrind::TypedValue &) override {
        seen_of(instruction).counts[place_of(item)]++;
    }
    void memoryLoad(const oclgrind::Memory *memory, const oclgrind::WorkItem *item, size_t address,
                    size_t size) override {
        access(memory, item, LOAD, address, size);
    }
    void memoryStore(const oclgrind::Memory *memory, const oclgrind::WorkItem *item, size_t address,
                     size_t size, const uint8_t *) override {
        access(memory, item, STORE, address, size);
    }
    void memoryAtomicLoad(const oclgrind::Memory *memory, const oclgrind::WorkItem *item, oclgrind::AtomicOp,
                          size_t address, size_t size) override {
        access(memory, item, LOAD, address, size);
    }
    void log(oclgrind::MessageType type, const char *message) override {
        if (type == oclgrind::ERROR && complaint.empty()) complain(message);
    }
    bool isThreadSafe() const override { return false; /* work-groups run one after another */ }

    /* Keeps the first line of a message. */
    void complain(const std::string &message) {
        std::istringstream lines(message);
        std::getline(lines >> std::ws, complaint);
        for (char &letter : complaint)
            if (letter == '"' || letter == '\\' || (unsigned char)letter < ' ') letter = ' ';
    }

  private:
    /* An instruction that was executed. */
    struct Seen {
        const llvm::Instruction *instruction;
        Work work;
        uint64_t executed;            /* before the last barrier, by all work-items */
        std::vector<uint32_t> counts; /* since then, by each of them */
        std::vector<Access> accesses; /* since then */
        Requests requests[KINDS];     /* before it */
    };
    struct Work64 {
        uint64_t instructions, multiply_adds;
    };

    const unsigned wave;
    unsigned items = 0;
    std::unordered_map<const llvm::Instruction *, size_t> numbers; /* places in `seen` */
    std::vector<Seen> seen;
    /* Of LOAD and STORE: sectors that the work-group touched, with a bit for every byte, and bytes of earlier
     * ones. */
    std::unordered_map<uint64_t, uint32_t> touched[2];
    uint64_t distinct[2] = {0, 0};
    uint64_t groups = 0; /* that ran */
    uint64_t slots = 0;  /* work-items that waves had room for, in each instruction that they executed */
    std::string complaint;

    unsigned place_of(const oclgrind::WorkItem *item) const {
        oclgrind::Size3 place = item->getLocalID(), size = item->getWorkGroup()->getGroupSize();
        return (unsigned)(place.x + size.x * (place.y + size.y * place.z));
    }

    Seen &seen_of(const llvm::Instruction *instruction) {
        auto found = numbers.emplace(instruction, seen.size());
        if (found.second)
            seen.push_back({instruction, work_of(instruction), 0, std::vector<uint32_t>(items), {}, {}});
        return seen[found.first->second];
    }

    void access(const oclgrind::Memory *memory, const oclgrind::WorkItem *item, Kind kind, size_t address,
                size_t size) {
        unsigned space = memory->getAddressSpace();
        if (!item || space == oclgrind::AddrSpacePrivate) return;
        if (space == oclgrind::AddrSpaceLocal) kind = LOCAL;
        Seen &one = seen_of(item->getCurrentInstruction());
        unsigned place = place_of(item);
        for (size_t at = 0; at < size; at += PIECE)
            one.accesses.push_back({one.counts[place], place, (uint16_t)(at / PIECE), (uint8_t)kind,
                                    (uint8_t)std::min(PIECE, size - at), address + at});
    }

    /* At a barrier: counts the requests, and forgets them. */
    void settle() {
        for (Seen &one : seen) {
            for (unsigned first = 0; first < items; first += wave) {
                uint32_t most = 0;
                for (unsigned i = first; i < std::min(items, first + wave); i++) {
                    most = std::max(most, one.counts[i]);
                    one.executed += one.counts[i];
                    one.counts[i] = 0;
                }
                slots += (uint64_t)most * wave * one.work.instructions;
            }
            auto key = [this](const Access &access) {
                return std::make_tuple(access.kind, access.item / wave, access.n, access.piece);
            };
            std::stable_sort(one.accesses.begin(), one.accesses.end(),
                             [key](const Access &a, const Access &b) { return key(a) < key(b); });
            for (size_t i = 0, end; i < one.accesses.size(); i = end) {
                for (end = i + 1; end < one.accesses.size() && key(one.accesses[end]) == key(one.accesses[i]);
                     end++) {
                }
                const Access *first = &one.accesses[i];
                count(one.requests[first->kind], first, first + (end - i));
            }
            one.accesses.clear();
        }
    }

    /* A request of a wave. */
    void count(Requests &sums, const Access *access, const Access *end) {
        sums.requests++;
        for (const Access *one = access; one < end; one++)
            sums.bytes += one->bytes;
        if (access->kind == LOCAL)
            count_local(sums, access, end);
        else
            count_global(sums, access, end);
    }

    void count_global(Requests &sums, const Access *access, const Access *end) {
        Touched sectors;
        for (const Access *one = access; one < end; one++)
            touch(sectors, *one, SECTOR);
        merge(sectors);
        for (const auto &sector : sectors)
            touched[access->kind][sector.first] |= sector.second;
        sums.transfers += sectors.size();
        sums.least += divide_up(bytes_in(sectors), SECTOR);
    }

    /* Local memory serves as many neighbouring work-items at a time as ask for a word of each bank. It passes
     * over the banks until the one of which most words are asked for has handed out all of them. */
    void count_local(Requests &sums, const Access *access, const Access *end) {
        while (access < end) {
            unsigned together = (unsigned)(BANKS * WORD / std::max(WORD, (size_t)access->bytes));
            unsigned part = access->item / together;
            Touched asked;
            for (; access < end && access->item / together == part; access++)
                touch(asked, *access, WORD);
            merge(asked);
            unsigned words[BANKS] = {0};
            for (const auto &word : asked)
                words[word.first % BANKS]++;
            sums.transfers += *std::max_element(words, words + BANKS);
            sums.least += divide_up(asked.size(), BANKS);
        }
    }

    /* The sums of a kind, and the line of the program that wastes most. */
    void print_requests(Kind kind) const {
        static const char *const names[KINDS] = {"load", "store", "local"};
        Requests sums;
        uint64_t most = 0;
        std::string line;
        for (const Seen &one : seen) {
            const Requests &its = one.requests[kind];
            sums.add(its);
            if (its.transfers - its.least > most) {
                most = its.transfers - its.least;
                line = place_in_source(one.instruction);
            }
        }
        std::string name = std::string(", \"") + names[kind];
        std::cout << name << "_requests\": " << sums.requests << name << "_transfers\": " << sums.transfers
                  << name << "_least\": " << sums.least << name << "_bytes\": " << sums.bytes << name
                  << "_place\": \"" << line << "\"";
    }

    /* Of the loop with most multiply-adds outside inner loops, or without any with most instructions. */
    Work64 hottest() const {
        std::map<const llvm::Function *, std::unique_ptr<llvm::LoopInfo>> loops;
        std::map<const llvm::Loop *, Work64> sums;
        for (const Seen &one : seen) {
            auto *function = const_cast<llvm::Function *>(one.instruction->getFunction());
            auto &known = loops[function];
            if (!known) known.reset(new llvm::LoopInfo(llvm::DominatorTree(*function)));
            const llvm::Loop *loop = known->getLoopFor(one.instruction->getParent());
            if (!loop) continue;
            sums[loop].instructions += one.executed * one.work.instructions;
            sums[loop].multiply_adds += one.executed * one.work.multiply_adds;
        }
        Work64 best = {0, 0};
        for (const auto &loop : sums)
            if (std::tie(loop.second.multiply_adds, loop.second.instructions) >
                std::tie(best.multiply_adds, best.instructions))
                best = loop.second;
        return best;
    }
};

/* ---- launches ----------------------------------------------------------------------------------- */

struct Argument {
    std::string kind, value;
};

/* The bytes of a number of the kernel's type. */
void set_number(oclgrind::TypedValue &value, const llvm::Type *type, const std::string &text) {
    if (type->isFloatTy()) {
        float number = std::stof(text);
        memcpy(value.data, &number, sizeof number);
    } else if (type->isDoubleTy()) {
        double number = std::stod(text);
        memcpy(value.data, &number, sizeof number);
    } else {
        int64_t number = std::stoll(text);
        memcpy(value.data, &number, std::min(sizeof number, (size_t)value.size));
    }
}

/* A launch, from its line to its "end". */
struct Launch {
    std::string name, kernel;
    oclgrind::Size3 global, local;
    std::vector<Argument> arguments;

    explicit Launch(std::istream &line) {
        line >> name >> kernel >> global.x >> global.y >> global.z >> local.x >> local.y >> local.z;
    }

    void run(oclgrind::Context &context, oclgrind::Program &program, Counter &counter) const {
        counter.reset();
        std::unique_ptr<oclgrind::Kernel> made(program.createKernel(kernel));
        if (!made || made->getNumArguments() != arguments.size()) {
            counter.complain(made ? "it takes other arguments" : "the program has no such kernel");
        } else {
            std::vector<size_t> buffers;
            for (unsigned i = 0; i < arguments.size(); i++)
                set_argument(context, *made, i, buffers);
            oclgrind::KernelInvocation::run(&context, made.get(), 3, oclgrind::Size3(0, 0, 0), global, local);
            for (size_t buffer : buffers)
                context.getGlobalMemory()->deallocateBuffer(buffer);
        }
        counter.print(name);
    }

  private:
    void set_argument(oclgrind::Context &context, oclgrind::Kernel &made, unsigned i,
                      std::vector<size_t> &buffers) const {
        const Argument &argument = arguments[i];
        std::vector<unsigned char> data(std::max(sizeof(size_t), made.getArgumentSize(i)));
        oclgrind::TypedValue value = {(unsigned)made.getArgumentSize(i), 1, data.data()};
        size_t bytes = argument.kind == "number" ? 0 : std::stoul(argument.value);
        if (argument.kind == "number") {
            set_number(value, made.getFunction()->getArg(i)->getType(), argument.value);
        } else if (argument.kind == "local") {
            value.size = (unsigned)bytes;
            value.data = NULL;
        } else if (bytes) {
            buffers.push_back(context.getGlobalMemory()->allocateBuffer(bytes));
            value.setPointer(buffers.back());
        }
        made.setArgument(i, value);
    }
};

/* NULL, and a message, if the program is not compiled. */
std::unique_ptr<oclgrind::Program> compile(oclgrind::Context &context, const std::string &path,
                                           const std::string &options) {
    std::ifstream source(path);
    std::stringstream text;
    text << source.rdbuf();
    std::unique_ptr<oclgrind::Program> program(new oclgrind::Program(&context, text.str()));
    if (program->build(oclgrind::Program::BUILD, options.c_str())) {
        tidy(*program);
    } else {
        std::cerr << program->getBuildLog() << std::endl;
        program.reset();
    }
    return program;
}

/* Runs the launches of a file. False, and a message, if its program is not compiled. */
bool run_all(std::istream &input, oclgrind::Context &context, Counter &counter) {
    std::string text, word, path, options;
    std::unique_ptr<oclgrind::Program> program;
    std::unique_ptr<Launch> launch;
    while (std::getline(input, text)) {
        std::istringstream line(text);
        line >> word >> std::ws;
        if (word == "program") {
            std::getline(line, path);
        } else if (word == "options") {
            std::getline(line, options);
            program = compile(context, path, options);
            if (!program) return false;
        } else if (word == "launch") {
            launch.reset(new Launch(line));
        } else if (word == "end") {
            launch->run(context, *program, counter);
        } else {
            Argument argument = {word, ""};
            line >> argument.value;
            launch->arguments.push_back(argument);
        }
    }
    return true;
}

} // namespace

int main(int count, char **words) {
    std::ifstream input(count == 3 ? words[2] : "");
    int wave = count == 3 ? atoi(words[1]) : 0;
    if (wave < 1 || !input) {
        std::cerr << "usage: counter WAVE FILE" << std::endl;
        return 2;
    }
    oclgrind::Context context;
    Counter counter(&context, (unsigned)wave);
    context.registerPlugin(&counter);
    bool well = run_all(input, context, counter);
    context.unregisterPlugin(&counter);
    return well ? 0 : 1;
}
