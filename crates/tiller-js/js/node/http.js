// `http`: requests through the host's client, and a small server over sockets.

import { Agent, ClientRequest, get, globalAgent, IncomingMessage, METHODS, request, STATUS_CODES } from "tiller:http-client";
import { createServer, Server, ServerResponse } from "tiller:http-server";

export { Agent, ClientRequest, get, globalAgent, IncomingMessage, METHODS, request, STATUS_CODES, createServer, Server, ServerResponse };
export const maxHeaderSize = 16384;
export const validateHeaderName = () => {};
export const validateHeaderValue = () => {};
export { IncomingMessage as OutgoingMessage };
