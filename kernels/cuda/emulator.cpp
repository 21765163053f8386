#define LINNET_EMULATED 1
#include "device.h"

#include <memory>
#include <stdexcept>
#include <ucontext.h>
#include <vector>

#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

namespace linnet::kernels::device {
namespace {

constexpr std::size_t kStackBytes = 256 * 1024;

struct Warp {
    void* lanes[32] = {};
    int arrived = 0;
    std::uint64_t generation = 0;
};

struct Fiber {
    ucontext_t context;
    ThreadPlace place;
    bool done = false;
};

struct Block {
    std::vector<Fiber> fibers;
    std::vector<Warp> warps;
    std::vector<unsigned char> shared;
    unsigned char* sharedStart = nullptr;
    std::size_t current = 0, running = 0, atBarrier = 0;
    std::uint64_t barrierGeneration = 0, switchesWithoutProgress = 0;
    ucontext_t scheduler;
    const std::function<void()>* thread = nullptr;
    bool stuck = false;
};

thread_local Block* block = nullptr;

void yieldFiber() {
    if (++block->switchesWithoutProgress > 64 * block->fibers.size())
        block->stuck = true;
    swapcontext(&block->fibers[block->current].context, &block->scheduler);
}

void fiberMain() {
    (*block->thread)();
    block->fibers[block->current].done = true;
    --block->running;
    block->switchesWithoutProgress = 0;
    if (block->running > 0 && block->atBarrier == block->running) {
        block->atBarrier = 0;
        ++block->barrierGeneration;
    }
}

} // namespace

ThreadPlace& here() { return block->fibers[block->current].place; }
unsigned char* sharedMemory() { return block->sharedStart; }

void blockBarrier() {
    const auto generation = block->barrierGeneration;
    if (++block->atBarrier == block->running) {
        block->atBarrier = 0;
        ++block->barrierGeneration;
        block->switchesWithoutProgress = 0;
        return;
    }
    while (block->barrierGeneration == generation)
        yieldFiber();
}

void warpCollective(void* mine, void (*action)(void* const* lanes)) {
    auto& warp = block->warps[block->current / 32];
    const auto generation = warp.generation;
    warp.lanes[block->current % 32] = mine;
    if (++warp.arrived == 32) {
        if (action)
            action(warp.lanes);
        warp.arrived = 0;
        ++warp.generation;
        block->switchesWithoutProgress = 0;
        return;
    }
    while (warp.generation == generation)
        yieldFiber();
}

const char* runGrid(const std::function<void()>& thread, dim3 grid, dim3 dim, std::size_t sharedBytes) {
    const std::size_t threads = std::size_t{dim.x} * dim.y * dim.z;
    if (threads == 0 || threads % 32 != 0)
        throw std::logic_error("emulator: a block must be whole warps");
    Block own;
    own.fibers.resize(threads);
    own.warps.resize(threads / 32);
    own.shared.resize(sharedBytes + 2048);
    own.sharedStart = own.shared.data() + (1024 - reinterpret_cast<std::uintptr_t>(own.shared.data()) % 1024);
    own.thread = &thread;
    const std::unique_ptr<char[]> stacks(new char[threads * kStackBytes]);
    block = &own;
    for (unsigned z = 0; z < grid.z; ++z)
        for (unsigned y = 0; y < grid.y; ++y)
            for (unsigned x = 0; x < grid.x; ++x) {
                std::memset(own.shared.data(), 0xFF, own.shared.size()); // NaN: reading what was not written shows
                for (std::size_t i = 0; i < threads; ++i) {
                    auto& fiber = own.fibers[i];
                    const auto t = static_cast<unsigned>(i);
                    fiber.place = {{t % dim.x, t / dim.x % dim.y, t / dim.x / dim.y}, {x, y, z}, dim, grid};
                    fiber.done = false;
                    getcontext(&fiber.context);
                    fiber.context.uc_stack.ss_sp = stacks.get() + i * kStackBytes;
                    fiber.context.uc_stack.ss_size = kStackBytes;
                    fiber.context.uc_link = &own.scheduler;
                    makecontext(&fiber.context, fiberMain, 0);
                }
                own.running = threads;
                own.atBarrier = 0;
                own.switchesWithoutProgress = 0;
                while (own.running > 0 && !own.stuck)
                    for (std::size_t i = 0; i < threads && !own.stuck; ++i)
                        if (!own.fibers[i].done) {
                            own.current = i;
                            swapcontext(&own.scheduler, &own.fibers[i].context);
                        }
                if (own.stuck) {
                    block = nullptr;
                    throw std::logic_error("emulator: threads wait for each other: a barrier or a warp collective was not reached by all");
                }
            }
    block = nullptr;
    return nullptr;
}

namespace {

struct MatrixLoad {
    std::uint32_t* registers;
    const void* row;
};

template <bool kTransposed> void loadWarp(void* const* lanes) {
    for (int matrix = 0; matrix < 4; ++matrix) {
        std::uint16_t values[8][8];
        for (int row = 0; row < 8; ++row) {
            const void* address = static_cast<MatrixLoad*>(lanes[8 * matrix + row])->row;
            if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0)
                throw std::logic_error("emulator: ldmatrix of a row that is not aligned to 16 bytes");
            std::memcpy(values[row], address, 16);
        }
        for (int lane = 0; lane < 32; ++lane) {
            const int a = lane / 4, b = 2 * (lane % 4);
            const std::uint32_t low = kTransposed ? values[b][a] : values[a][b];
            const std::uint32_t high = kTransposed ? values[b + 1][a] : values[a][b + 1];
            static_cast<MatrixLoad*>(lanes[lane])->registers[matrix] = low | high << 16;
        }
    }
}

struct MmaLane {
    float* c;
    const std::uint32_t* a;
    std::uint32_t b[2];
    float (*value)(std::uint16_t);
};

void mmaWarp(void* const* lanes) {
    float a[16][16], b[16][8];
    for (int lane = 0; lane < 32; ++lane) {
        const auto& mine = *static_cast<MmaLane*>(lanes[lane]);
        const int group = lane / 4, t = lane % 4;
        for (int half = 0; half < 2; ++half) {
            for (int r = 0; r < 4; ++r)
                a[group + 8 * (r % 2)][8 * (r / 2) + 2 * t + half] = mine.value(static_cast<std::uint16_t>(mine.a[r] >> (16 * half)));
            for (int r = 0; r < 2; ++r)
                b[8 * r + 2 * t + half][group] = mine.value(static_cast<std::uint16_t>(mine.b[r] >> (16 * half)));
        }
    }
    for (int lane = 0; lane < 32; ++lane) {
        const auto& mine = *static_cast<MmaLane*>(lanes[lane]);
        for (int r = 0; r < 4; ++r) {
            const int row = lane / 4 + 8 * (r / 2), column = 2 * (lane % 4) + r % 2;
            double sum = mine.c[r];
            for (int k = 0; k < 16; ++k)
                sum += static_cast<double>(a[row][k]) * b[k][column];
            mine.c[r] = static_cast<float>(sum);
        }
    }
}

struct ShuffleLane {
    float in, out;
    int from;
};

} // namespace

void loadMatrices(std::uint32_t (&r)[4], const void* row) {
    MatrixLoad load{r, row};
    warpCollective(&load, loadWarp<false>);
}
void loadMatricesTransposed(std::uint32_t (&r)[4], const void* row) {
    MatrixLoad load{r, row};
    warpCollective(&load, loadWarp<true>);
}
void mmaFloats(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1, float (*value)(std::uint16_t)) {
    MmaLane mine{c, a, {b0, b1}, value};
    warpCollective(&mine, mmaWarp);
}
float shuffleFrom(float value, int lane) {
    ShuffleLane mine{value, value, lane};
    warpCollective(&mine, [](void* const* lanes) {
        for (int i = 0; i < 32; ++i) {
            auto& to = *static_cast<ShuffleLane*>(lanes[i]);
            to.out = to.from >= 0 && to.from < 32 ? static_cast<ShuffleLane*>(lanes[to.from])->in : to.in;
        }
    });
    return mine.out;
}
bool anyLane(bool mine) {
    warpCollective(&mine, [](void* const* lanes) {
        bool any = false;
        for (int i = 0; i < 32; ++i)
            any = any || *static_cast<bool*>(lanes[i]);
        for (int i = 0; i < 32; ++i)
            *static_cast<bool*>(lanes[i]) = any;
    });
    return mine;
}

} // namespace linnet::kernels::device
