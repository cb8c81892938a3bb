export * from "./ethos.js";
