# files of engine/text
