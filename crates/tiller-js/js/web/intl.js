// A small part of `Intl`: numbers and dates in English.

const group = (text) => text.replace(/\B(?=(\d{3})+(?!\d))/g, ",");

class NumberFormat {
	constructor(_locale, options = {}) {
		this.options = options;
	}
	format(value) {
		const { style, currency, notation, minimumFractionDigits, maximumFractionDigits, useGrouping = true } = this.options;
		let number = Number(value);
		let suffix = "";
		if (style === "percent") {
			number *= 100;
			suffix = "%";
		}
		if (notation === "compact") {
			const [size, letter] = [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "K"]].find(([size]) => Math.abs(number) >= size) ?? [1, ""];
			return `${Number((number / size).toPrecision(number / size >= 100 ? 3 : 2))}${letter}`;
		}
		const most = maximumFractionDigits ?? (style === "currency" ? 2 : style === "percent" ? 0 : Math.max(3, minimumFractionDigits ?? 0));
		const least = minimumFractionDigits ?? (style === "currency" ? 2 : 0);
		let [whole, part = ""] = Math.abs(number).toFixed(most).split(".");
		while (part.length > least && part.endsWith("0")) part = part.slice(0, -1);
		const sign = number < 0 ? "-" : "";
		const symbol = style === "currency" ? ({ USD: "$", EUR: "€", GBP: "£", JPY: "¥" }[currency] ?? `${currency} `) : "";
		return `${sign}${symbol}${useGrouping ? group(whole) : whole}${part ? `.${part}` : ""}${suffix}`;
	}
	formatToParts(value) {
		return [{ type: "literal", value: this.format(value) }];
	}
	resolvedOptions() {
		return { locale: "en-US", numberingSystem: "latn", ...this.options };
	}
}

const months = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const days = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

class DateTimeFormat {
	constructor(_locale, options = {}) {
		this.options = options;
	}
	format(date = new Date()) {
		const value = new Date(date);
		return [this.#day(value), this.#time(value)].filter(Boolean).join(", ");
	}
	#day(value) {
		const { dateStyle, weekday, year, month, day } = this.options;
		const asked = dateStyle ?? weekday ?? year ?? month ?? day;
		if (asked === undefined && this.#time(value) !== undefined) return undefined;
		const long = dateStyle === "long" || dateStyle === "full" || month === "long";
		if (long || month === "short" || dateStyle === "medium") {
			const name = months[value.getMonth()];
			const shown = [`${long ? name : name.slice(0, 3)}${dateStyle || day ? ` ${value.getDate()}` : ""}`];
			if (dateStyle || year) shown.push(String(value.getFullYear()));
			if (weekday) shown.unshift(weekday === "long" ? days[value.getDay()] : days[value.getDay()].slice(0, 3));
			return shown.join(", ");
		}
		const two = (number, style) => (style === "2-digit" ? String(number).padStart(2, "0") : String(number));
		if (asked === undefined || dateStyle) return `${value.getMonth() + 1}/${value.getDate()}/${value.getFullYear()}`;
		const parts = [month && two(value.getMonth() + 1, month), day && two(value.getDate(), day), year && two(year === "2-digit" ? value.getFullYear() % 100 : value.getFullYear(), year)];
		return parts.filter(Boolean).join("/") || undefined;
	}
	#time(value) {
		const { timeStyle, hour, minute, second, hour12, hourCycle } = this.options;
		if (timeStyle === undefined && hour === undefined && minute === undefined && second === undefined) return undefined;
		const isShort = timeStyle === "short" || (timeStyle === undefined && second === undefined);
		const is24 = hour12 === false || hourCycle === "h23";
		const two = (number) => String(number).padStart(2, "0");
		const hours = is24 ? two(value.getHours()) : hour === "2-digit" ? two(value.getHours() % 12 || 12) : String(value.getHours() % 12 || 12);
		const clock = [hours, two(value.getMinutes()), ...(isShort ? [] : [two(value.getSeconds())])].join(":");
		return is24 ? clock : `${clock} ${value.getHours() < 12 ? "AM" : "PM"}`;
	}
	formatToParts(date) {
		return [{ type: "literal", value: this.format(date) }];
	}
	resolvedOptions() {
		return { locale: "en-US", calendar: "gregory", numberingSystem: "latn", timeZone: globalThis.process.env.TZ || "UTC" };
	}
}

class Collator {
	constructor(_locale, options = {}) {
		this.options = options;
		this.compare = (a, b) => {
			const [left, right] = options.sensitivity === "base" || options.sensitivity === "accent" ? [a.toLowerCase(), b.toLowerCase()] : [a, b];
			if (!options.numeric) return left < right ? -1 : left > right ? 1 : 0;
			const parts = (text) => text.split(/(\d+)/);
			const [x, y] = [parts(left), parts(right)];
			for (let at = 0; at < Math.max(x.length, y.length); at++) {
				const [p, q] = [x[at] ?? "", y[at] ?? ""];
				if (p === q) continue;
				return /^\d/.test(p) && /^\d/.test(q) ? Number(p) - Number(q) : p < q ? -1 : 1;
			}
			return 0;
		};
	}
}

class Segmenter {
	constructor(_locale, { granularity = "grapheme" } = {}) {
		this.granularity = granularity;
	}
	segment(input) {
		const pattern = this.granularity === "word" ? /[\p{L}\p{N}_']+|\s+|[^\p{L}\p{N}\s]/gsu : this.granularity === "sentence" ? /[^.!?]+[.!?]*\s*/gs : /(?:\p{RI}\p{RI}|\P{M}(?:\uFE0F|\p{M}|\p{EMod}|\u200D\P{M})*|\p{M})/gsu;
		const granularity = this.granularity;
		return {
			*[Symbol.iterator]() {
				for (const match of input.matchAll(pattern)) {
					const found = { segment: match[0], index: match.index, input };
					if (granularity === "word") found.isWordLike = /[\p{L}\p{N}]/u.test(match[0]);
					yield found;
				}
			},
		};
	}
}

class RelativeTimeFormat {
	constructor(_locale, options = {}) {
		this.options = options;
	}
	format(value, unit) {
		const name = String(unit).replace(/s$/, "");
		const size = Math.abs(value);
		if (this.options.numeric === "auto" && name === "day" && [-1, 0, 1].includes(value)) return { "-1": "yesterday", 0: "today", 1: "tomorrow" }[value];
		const words = `${group(String(size))} ${name}${size === 1 ? "" : "s"}`;
		return value < 0 || Object.is(value, -0) ? `${words} ago` : `in ${words}`;
	}
}

class PluralRules {
	constructor(_locale, { type = "cardinal" } = {}) {
		this.type = type;
	}
	select(value) {
		if (this.type === "cardinal") return value === 1 ? "one" : "other";
		const [tens, ones] = [value % 100, value % 10];
		if (ones === 1 && tens !== 11) return "one";
		if (ones === 2 && tens !== 12) return "two";
		return ones === 3 && tens !== 13 ? "few" : "other";
	}
}

class ListFormat {
	constructor(_locale, { type = "conjunction" } = {}) {
		this.word = type === "disjunction" ? "or" : "and";
	}
	format(items) {
		const list = [...items];
		if (list.length < 3) return list.join(` ${this.word} `);
		return `${list.slice(0, -1).join(", ")}, ${this.word} ${list.at(-1)}`;
	}
}

class DisplayNames {
	of(code) {
		return code;
	}
}

class Locale {
	constructor(tag) {
		this.baseName = tag;
		this.language = tag.split("-")[0];
	}
	toString() {
		return this.baseName;
	}
}

/** Can be called without `new`. */
const callable = (Class) => new Proxy(Class, { apply: (_target, _self, args) => new Class(...args) });

export const Intl = {
	NumberFormat: callable(NumberFormat),
	DateTimeFormat: callable(DateTimeFormat),
	Collator: callable(Collator),
	Segmenter,
	RelativeTimeFormat,
	PluralRules,
	ListFormat,
	DisplayNames,
	Locale,
	getCanonicalLocales: (tags) => [tags].flat(),
	supportedValuesOf: () => [],
};
for (const name of Object.keys(Intl)) if (typeof Intl[name] === "function" && Intl[name].prototype) Intl[name].supportedLocalesOf = () => ["en-US"];
