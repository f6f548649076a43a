/* The compiled shaders: one generated header, see shaders/build.sh. */
#include "engine/vulkan/shader.h"

#include "engine/vulkan/shaders.spv.h"
