# files of tests
