// What the modules of projects show: their texts and their styles, once.

import { sheet } from "./dom.js";
import { loadStrings } from "./i18n.js";

await Promise.all([loadStrings(), sheet("projects")]);
