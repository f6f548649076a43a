# files of engine/cache
