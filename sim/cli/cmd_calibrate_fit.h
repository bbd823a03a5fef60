/* cmd_calibrate_fit.h: calibrate fit, calibrate check --leave-out and calibrate report. */
#ifndef SIM_CLI_CMD_CALIBRATE_FIT_H
#define SIM_CLI_CMD_CALIBRATE_FIT_H

/* argv[0] is "fit", "check" (with --leave-out among the arguments) or "report"; returns the exit code. */
int cmd_calibrate_fit(int argc, char **argv);

#endif
