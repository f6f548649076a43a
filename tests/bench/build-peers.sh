#!/bin/sh
# Builds the two engines that docs/speed compares this one with on the processor: llama.cpp as llama-cpp-python's source
# carries it, and ik_llama.cpp; of each, llama-bench and llama-batched-bench for an instruction set. Not part of any
# check. A source that is there already is taken as it is. tests/bench/peers.mjs then measures them beside this engine.
#
#   tests/bench/build-peers.sh FOLDER [avx2|avx512vnni] [JOBS]
set -eu

folder=${1:?usage: tests/bench/build-peers.sh FOLDER [avx2|avx512vnni] [JOBS]}
isa=${2:-avx2}
jobs=${3:-1}
flags=
llama_cpp_python=0.3.36
ik_commit=8337e4cd3861406fc04e0854b1409cd1b027fbc9
sets="-DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON"
case $isa in
avx2) ;;
# ik_llama.cpp asks for F and BW alone by GGML_AVX512, and does not compile without the others.
avx512vnni) flags="-mavx512cd -mavx512dq -mavx512vl"
    sets="$sets -DGGML_AVX512=ON -DGGML_AVX512_VBMI=ON -DGGML_AVX512_VNNI=ON -DGGML_AVX512_BF16=ON" ;;
*) echo "build-peers.sh: $isa: avx2 or avx512vnni" >&2; exit 2 ;;
esac
mkdir -p "$folder"
cd "$folder"

if [ ! -d llama.cpp ]; then
    python3 -m venv python
    python/bin/pip install --quiet scikit-build-core
    python/bin/pip download --quiet --no-deps --no-binary llama-cpp-python --no-build-isolation \
        "llama-cpp-python==$llama_cpp_python"
    tar xzf "llama_cpp_python-$llama_cpp_python.tar.gz"
    mv "llama_cpp_python-$llama_cpp_python/vendor/llama.cpp" llama.cpp
fi
if [ ! -d ik_llama.cpp ]; then
    git clone --quiet https://github.com/ikawrakow/ik_llama.cpp
    git -C ik_llama.cpp checkout --quiet "$ik_commit"
    # Its batches are of one token that repeats, so all streams choose the same experts; llama.cpp's are random, and ours.
    sed -i -E '/\{ j \}/s/common_batch_add\(batch, 0,/common_batch_add(batch, std::rand() % llama_n_vocab(model),/' \
        ik_llama.cpp/examples/batched-bench/batched-bench.cpp
fi

for peer in ik_llama.cpp llama.cpp; do
    # $sets is a list of words. Keys and values are f16 in all that is measured, and kernels for other types take long to compile.
    # shellcheck disable=SC2086
    cmake -S "$peer" -B "$peer/build-$isa" -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=OFF $sets -DBUILD_SHARED_LIBS=OFF \
        "-DCMAKE_C_FLAGS=$flags" "-DCMAKE_CXX_FLAGS=$flags" -DGGML_IQK_FA_ALL_QUANTS=OFF -DLLAMA_CURL=OFF \
        -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_SERVER=OFF
    make -C "$peer/build-$isa" "-j$jobs" llama-bench llama-batched-bench
done
