# files of engine/model
