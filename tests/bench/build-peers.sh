#!/bin/sh
# Builds the two engines that docs/speed compares this one with on the processor: llama.cpp as llama-cpp-python's source
# carries it, and ik_llama.cpp; of each, llama-bench and llama-batched-bench for this machine's instruction set. Not part of any
# check. A source that is there already is taken as it is.
#
#   tests/bench/build-peers.sh FOLDER [JOBS]
#   FOLDER/ik_llama.cpp/build/bin/llama-bench -m FILE -t 2 -p 512 -n 64 -rtr 1 -fa 1
set -eu

folder=${1:?usage: tests/bench/build-peers.sh FOLDER [JOBS]}
jobs=${2:-1}
llama_cpp_python=0.3.36
ik_commit=8337e4cd3861406fc04e0854b1409cd1b027fbc9
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
fi

for peer in ik_llama.cpp llama.cpp; do
    cmake -S "$peer" -B "$peer/build" -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DBUILD_SHARED_LIBS=OFF \
        -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_SERVER=OFF
    make -C "$peer/build" "-j$jobs" llama-bench llama-batched-bench
done
