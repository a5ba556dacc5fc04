// `tty`: there is none.

export const isatty = () => false;
export class ReadStream {}
export class WriteStream {}
