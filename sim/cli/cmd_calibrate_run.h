/* cmd_calibrate_run.h: the part of `dcpsim calibrate` that measures. argv[0] is "run". */
#ifndef SIM_CLI_CMD_CALIBRATE_RUN_H
#define SIM_CLI_CMD_CALIBRATE_RUN_H

int cmd_calibrate_run(int argc, char **argv);

#endif
