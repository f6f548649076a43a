# Prints those sections of a whole catalogue (the second file) that the first file, a part of the English one, has: the page loads a
# language in such parts, and only English and German are kept in them.
FNR == 1 { file++ }
/^  "[A-Za-z]+": \{/ {
    split($0, word, "\"")
    if (file == 1)
        wanted[word[2]] = 1
    else if (word[2] in wanted) {
        inside = 1
        text = text (text == "" ? "" : ",\n\n")
    }
}
file == 2 && inside && /^  \}/ { text = text "  }"; inside = 0 }
file == 2 && inside { text = text $0 "\n" }
END { printf "{\n%s\n}\n", text }
