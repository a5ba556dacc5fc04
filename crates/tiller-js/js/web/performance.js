// Time since the engine started.

import { native } from "tiller:host";

const origin = Date.now() - native.clock();
const marks = [];

export const performance = {
	timeOrigin: origin,
	now: () => native.clock(),
	mark(name) {
		const mark = { name, entryType: "mark", startTime: native.clock(), duration: 0 };
		marks.push(mark);
		return mark;
	},
	measure(name, from) {
		const start = marks.findLast((mark) => mark.name === from)?.startTime ?? 0;
		const measure = { name, entryType: "measure", startTime: start, duration: native.clock() - start };
		marks.push(measure);
		return measure;
	},
	getEntries: () => [...marks],
	getEntriesByName: (name) => marks.filter((mark) => mark.name === name),
	getEntriesByType: (type) => marks.filter((mark) => mark.entryType === type),
	clearMarks: () => void marks.splice(0),
	clearMeasures() {},
	eventLoopUtilization: () => ({ idle: 0, active: 0, utilization: 0 }),
	toJSON: () => ({ timeOrigin: origin }),
};
