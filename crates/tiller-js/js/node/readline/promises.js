// `readline/promises`.

import { Interface as Plain } from "tiller:lines";

export class Interface extends Plain {
	question(query) {
		return new Promise((resolve) => super.question(query, resolve));
	}
}

export const createInterface = (options, output) => new Interface(options, output);
