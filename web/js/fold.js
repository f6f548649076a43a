// Texts without their letter case, so that they can be compared as the server compares tags.

export const fold = (text) => text.normalize("NFC").toUpperCase().toLowerCase(); // over the capitals: "straße" is "STRASSE"
