// The texts of the page in the chosen language.

import { language } from "../app/settings";
import { useStore } from "../app/store";
import { en, type Words } from "./en";
import { zh } from "./zh";

export type { Words } from "./en";

export const useWords = (): Words => (useStore(language) === "zh" ? zh : en);
