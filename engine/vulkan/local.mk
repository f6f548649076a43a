# files of engine/vulkan
