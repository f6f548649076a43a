/* The compiled shaders: one generated header, see shaders/build.sh. */
#include "engine/vulkan/device/shader.h"

#include "engine/vulkan/shaders.spv.h"
